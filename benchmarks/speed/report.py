"""What is shown: the table, results.json, ratios.svg, and RESULTS.md and docs/speed.md made from them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from causes import cause_of
from learners import float32_effect
from measure import Row
from rich.console import Console
from rich.table import Table
from yardsticks import exp_name

from budgetron import __version__
from budgetron.engine import native

CONSOLE = Console()
Record = dict[str, Any]


def results(rows: Sequence[Row], quick: bool) -> Record:
    """All that was measured, with the kind of machine and no name of it."""
    records = [row.to_dict() for row in rows]
    return {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "quick": quick,
        "machine": machine(),
        "rows": records,
        "float32": float32_effect(records),
    }


def machine() -> Record:
    level = native.level or "none"
    return {
        "arch": platform.machine(),
        "cores": os.cpu_count(),
        "instruction_set": level,
        "python": platform.python_version(),
        "vector_exp": exp_name(),
        "load": round(os.getloadavg()[0], 1),
    }


def say(row: Row) -> None:
    CONSOLE.print(f"{row.work}: {amount(row.to_dict())} ({verdict(row.to_dict())})", highlight=False)


def amount(row: Record, value: float | None = None) -> str:
    value = row["ratio"] if value is None else value
    if value is None:
        return "not measured"
    return f"{value:.2f}" if row["unit"] == "exponent" else f"{value:.3g} {row['unit']}"


def between(row: Record) -> str:
    return "" if row["quartiles"] is None else f"{row['quartiles'][0]:.3g} – {row['quartiles'][1]:.3g}"


def reach(row: Record) -> str:
    return ("≤ " if row["at_most"] else "≥ ") + f"{row['reach']:g} {row['unit']}".replace(" exponent", "")


def verdict(row: Record) -> str:
    if row["met"] is None:
        return f"not measured: {row['reason']}"
    if row["met"]:
        return "met"
    missing = row["ratio"] / row["reach"] if row["at_most"] else row["reach"] / row["ratio"]
    return f"missed by {missing:.2f} ×"


def write(found: Record, folder: Path, docs: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (folder / "ratios.svg").write_text(picture(found["rows"]))
    (folder / "RESULTS.md").write_text("\n".join(page(found)) + "\n")
    if docs is not None and "phases" in found:
        docs.write_text("\n".join(profile_page(found)) + "\n")
    table = Table("work", "ratio", "quartiles", "reach", "")
    for row in found["rows"]:
        colour = {True: "green", False: "red", None: "yellow"}[row["met"]]
        table.add_row(row["work"], amount(row), between(row), reach(row), f"[{colour}]{verdict(row)}")
    CONSOLE.print(table)


def page(found: Record) -> Iterator[str]:
    """RESULTS.md."""
    kind = found["machine"]
    yield "# Speed, measured\n"
    yield f"Made by `make bench` from `results.json`; how to read it is in [README.md](README.md). {found['date']}, "
    yield f"version {found['version']}, {kind['arch']}, {kind['cores']} cores, core for {kind['instruction_set']}, "
    yield f"one thread, load average {kind['load']}" + (", **quick run**" if found["quick"] else "") + ".\n"
    yield "| work | yardstick | ratio | quartiles | reach | | µs | µs of the yardstick |"
    yield "|---|---|--:|--:|--:|---|--:|--:|"
    for row in found["rows"]:
        times = " | ".join("" if not row[name] else f"{row[name]:.3g}" for name in ("work_us", "yardstick_us"))
        cells = (row["work"], row["yardstick"], amount(row), between(row), reach(row), verdict(row), times)
        yield "| " + " | ".join(cells) + " |"
    yield "\n![ratios](ratios.svg)\n"
    missed = [row for row in found["rows"] if row["met"] is False]
    if missed:
        yield "## Missed, and why\n"
        yield from (f"- **{row['work']}** ({amount(row)}, {reach(row)}). {cause_of(row['name'])}" for row in missed)
    if "peers" in found:
        yield from peers_part(found["peers"])


def peers_part(peers: Record) -> Iterator[str]:
    yield "\n## Side by side with others\n"
    yield "Each row is predicted before it is learned (in batches: a batch). Settings are the best of a small grid,"
    yield "searched on the first fifth; both are in `results.json`. Seconds are processor time. Bytes are the pickle's"
    yield "for river and scikit-learn, the saved model's for Vowpal Wabbit, `memory_bytes_` for ours. Slow candidates"
    yield "got the beginning of the stream (n), and one run instead of five. `stored` is how much of a budget of 300"
    yield "was used: where few directions are new (Chem97 has three features) a projection stores far less.\n"
    for stream in dict.fromkeys(record["stream"] for record in peers["records"]):
        yield f"\n### {stream}\n"
        yield "| learner | examples/s | slowest – fastest | online error | F | bytes | stored | n | chosen |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|---|"
        for one in peers["records"]:
            if one["stream"] == stream:
                chosen = ", ".join(f"{name}={value}" for name, value in one["chosen"].items())
                slow, fast = one["slowest_and_fastest"]
                extremes = f"{slow:,.0f} – {fast:,.0f}" if one["runs"] > 1 else "one run"
                speed = f"{one['examples_per_second']:,.0f} | {extremes}"
                figures = f"{one['error']:.3f} | {one['f']:.3f} | {one['bytes']:,} | {one['stored'] or ''}"
                yield f"| {one['peer']} | {speed} | {figures} | {one['n']:,} | {chosen} |"
    yield "\nWhat they cannot do:\n"
    yield from (f"- {library}: {what}." for library, what in peers["cannot"].items())


def profile_page(found: Record) -> Iterator[str]:
    """docs/speed.md."""
    yield "# Speed\n"
    yield "This page shows where the time of one example goes, and which speed targets are missed.\n"
    yield "Written by `python benchmarks/speed/run.py --docs docs/speed.md` from the same run as"
    yield "[the results](../benchmarks/speed/RESULTS.md); no figure here is typed. d = 28, Gaussian kernel, one thread,"
    yield f"core compiled for {found['machine']['instruction_set']}.\n"
    yield "## One example of mtrbp in a block call, µs\n"
    parts = found["phases"]["parts"]
    yield "| part | " + " | ".join(parts) + " |\n|---|" + "--:|" * len(parts)
    for name in next(iter(parts.values())):
        yield f"| {name} | " + " | ".join(f"{one[name]:.2f}" for one in parts.values()) + " |"
    yield "\nWith small budgets most time is overhead around the arithmetic; with large budgets it is the arithmetic."
    yield "Blocks of a thousand rows or more spread the overhead over the rows; `learn_one` has it every time.\n"
    if found["phases"]["functions"]:
        yield "## Share of the time per function, measured by perf\n"
        yield "`products` are inner products, `gaussian` the exp, `symmetric_pass` the pass over a B × B triangle,"
        yield "`scatter` and `columns` the inverted index, `table` the hashed table. In a stripped wheel they"
        yield "are loops without a name.\n"
        for name, shares in found["phases"]["functions"].items():
            yield f"- **{name}**: " + ", ".join(f"{function} {share:.0f} %" for function, share in shares if share >= 2)
    if found["float32"]:
        yield "\n## float32\n"
        yield "Rows in float32 are stored and multiplied in float32; weights, inverses and margins stay float64."
        for name, gain in found["float32"].items():
            yield f"- {name.replace('-', ', ')}: {gain:.2f} × as fast, half the bytes of the rows"
    missed = [row for row in found["rows"] if row["met"] is False]
    if missed:
        yield "\n## Targets missed in this run\n"
        yield from (f"- {row['work']}: {amount(row)} ({reach(row)}). {cause_of(row['name'])}" for row in missed)


def picture(rows: Sequence[Record]) -> str:
    """One bar a row: how much of its reach it uses, to the dotted line; beyond it the target is missed."""
    shown = [row for row in rows if row["ratio"] is not None]
    height, left, scale, most = 20, 430, 180, 2.5
    parts = []
    for place, row in enumerate(shown):
        used = max(0.0, row["ratio"] / row["reach"] if row["at_most"] else row["reach"] / max(row["ratio"], 1e-9))
        y, colour = 44 + place * height, "#009e73" if row["met"] else "#d55e00"
        width = max(1.0, scale * min(used, most))
        parts.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{escape(row["work"][:72])}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{height - 6}" fill="{colour}"/>')
        label = f"{amount(row)} ({reach(row)})"
        parts.append(f'<text x="{left + width + 6:.1f}" y="{y + 11}">{escape(label)}</text>')
    bottom = 50 + len(shown) * height
    parts.append(f'<path d="M{left + scale} 34V{bottom}" stroke="#222" stroke-dasharray="1 3"/>')
    parts.append(f'<text x="{left + scale}" y="28" text-anchor="middle">reach</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1060 {bottom + 10}" width="1060" height="{bottom + 10}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img"><title>Speed targets: share of the reach used'
        f'</title><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )
