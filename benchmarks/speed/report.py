"""Writes the results: a table, results.json, ratios.svg, and the pages RESULTS.md and docs/speed.md.

    python benchmarks/speed/report.py    # writes RESULTS.md and ratios.svg again from the JSON files, without measuring
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from causes import cause_of, why_slower
from learners import float32_effect
from measure import Row
from rich.console import Console
from rich.table import Table
from two_builds import table as compared_builds
from yardsticks import exp_name

from budgetron import __version__
from budgetron.engine import native

CONSOLE = Console()
FLOAT32 = """\
Rows in float32 are stored and multiplied in float32; weights, inverses and margins stay float64.

Features need not be centred for the Gaussian kernel. If dense rows are far from 0 compared with their spread, the model
subtracts a reference point from them: a row of the stream, which is saved in the model file. The point is set when two
consecutive rows are far from 0 and near each other, so that a single outlier cannot become the reference. It moves when
the stream moves away from it. `active_set_` adds the point back, so that its rows are the original ones, up to one
rounding of float32. Two limits remain:

- One reference point cannot fit two distant groups of rows. If the distance between groups is more
  than about a thousand times their spread, rows lose digits in float32. Pass such rows as float64.
- Kernel values of dense float32 rows are exact to about 10⁻⁵. A projection therefore treats the squared distance
  δ² of a row from the span of the stored rows as 0 if it is below 2⁻¹⁶ K(x, x), even if the threshold η is smaller. For
  float64 and for sparse rows the limit is 2⁻³⁶ K(x, x).

Sparse rows are not centred. Their products are summed in float64, so float32 loses nothing there.

Compared with float64:
"""
Record = dict[str, Any]
# What the benchmark of version 0.1 printed for rows that both versions have.
VERSION_0_1 = json.loads(Path(__file__).with_name("version_0_1.json").read_text())


def results(rows: Sequence[Row], quick: bool) -> Record:
    """All measurements, with the kind of machine but without its name."""
    records = [row.to_dict() for row in rows]
    for record in records:
        record["in_0_1"] = record["in_0_1"] or VERSION_0_1.get(record["name"])
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


def print_row(row: Row) -> None:
    CONSOLE.print(f"{row.work}: {amount(row.to_dict())} ({outcome(row.to_dict())})", highlight=False)


def amount(row: Record, value: float | None = None) -> str:
    value = row["ratio"] if value is None else value
    if value is None:
        return "not measured"
    return f"{value:.2f}" if row["unit"] == "exponent" else f"{value:.3g} {row['unit']}"


def quartiles(row: Record) -> str:
    return "" if row["quartiles"] is None else f"{row['quartiles'][0]:.3g} – {row['quartiles'][1]:.3g}"


def ratio_in_0_1(row: Record) -> str:
    """The ratio of version 0.1, where it was measured."""
    return "" if row.get("in_0_1") is None else amount(row, row["in_0_1"])


def target(row: Record) -> str:
    return ("≤ " if row["at_most"] else "≥ ") + f"{row['reach']:g} {row['unit']}".replace(" exponent", "")


def outcome(row: Record) -> str:
    if row["met"] is None:
        return f"not measured: {row['reason']}"
    if row["met"]:
        return "met"
    missing = row["ratio"] / row["reach"] if row["at_most"] else row["reach"] / row["ratio"]
    return f"missed by {missing:.2f} ×"


def write(record: Record, folder: Path, docs: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (folder / "ratios.svg").write_text(picture(record["rows"]))
    (folder / "RESULTS.md").write_text("\n".join(page(record)) + "\n")
    if docs is not None and "phases" in record:
        docs.write_text("\n".join(profile_page(record)) + "\n")
    table = Table("work", "yardstick", "ratio", "quartiles", "in 0.1", "target", "")
    for row in record["rows"]:
        colour = {True: "green", False: "red", None: "yellow"}[row["met"]]
        table.add_row(
            row["work"],
            row["yardstick"],
            amount(row),
            quartiles(row),
            ratio_in_0_1(row),
            target(row),
            f"[{colour}]{outcome(row)}",
        )
    CONSOLE.print(table)


def page(record: Record) -> Iterator[str]:
    """RESULTS.md."""
    kind = record["machine"]
    yield "# Speed, measured\n"
    yield f"Written by `make bench` from `results.json`; [README.md](README.md) explains the columns. {record['date']},"
    yield f"version {record['version']}, {kind['arch']}, {kind['cores']} cores, core for {kind['instruction_set']},"
    yield f"one thread, load average {kind['load']}" + (", **quick run**" if record["quick"] else "") + ".\n"
    yield "| work | yardstick | ratio | quartiles | in 0.1 | target | | µs | µs of the yardstick |"
    yield "|---|---|--:|--:|--:|--:|---|--:|--:|"
    for row in record["rows"]:
        times = " | ".join("" if not row[name] else f"{row[name]:.3g}" for name in ("work_us", "yardstick_us"))
        ratio = (amount(row), quartiles(row), ratio_in_0_1(row), target(row))
        cells = (row["work"], row["yardstick"], *ratio, outcome(row), times)
        yield "| " + " | ".join(cells) + " |"
    yield "\n![ratios](ratios.svg)\n"
    missed = [row for row in record["rows"] if row["met"] is False]
    if missed:
        yield "## Missed targets, and why\n"
        yield from explained(missed)
    yield from compared_with_0_1()


def compared_with_0_1() -> Iterator[str]:
    """The table of two_builds.json, and the rows that are more than 5 % slower than in version 0.1."""
    rows = json.loads(Path(__file__).with_name("two_builds.json").read_text())
    yield "\n## Compared with version 0.1\n"
    yield "`python benchmarks/speed/two_builds.py PYTHON_OF_0.1 PYTHON --out benchmarks/speed/two_builds.json` measures"
    yield "this: processes of version 0.1 (commit 1b9914b) and of this version take turns. Times are processor time per"
    yield "example, task or row of a file, the minimum over the repetitions in a process. The ratio is this version ÷"
    yield f"version 0.1; its median and quartiles are over {min(row['rounds'] for row in rows)} rounds or more.\n"
    yield from compared_builds(rows, "0.1", "now")
    yield "\nSlower by more than 5 %:\n"
    for row in rows:
        if row["ratio"] > 1.05:
            yield f"- **{row['work']}** ({row['ratio']:.2f} ×). {why_slower(row['work'])}"


def profile_page(record: Record) -> Iterator[str]:
    """docs/speed.md."""
    yield "# Speed\n"
    yield "After reading this page, you know where the time of one example goes, and which speed targets are missed."
    yield "B is the budget: the number of stored examples. `mtrbp` is the name of `RandomBudgetPerceptron` in the"
    yield "[paper](reproduce.md).\n"
    yield "Written by `python benchmarks/speed/run.py --docs docs/speed.md` from the same run as"
    yield "[the results](../benchmarks/speed/RESULTS.md). Unless stated otherwise: d = 28 features, Gaussian kernel,"
    yield f"one thread, core compiled for the instruction set {record['machine']['instruction_set']}.\n"
    yield "## One example of mtrbp in a block call, µs\n"
    parts = record["phases"]["parts"]
    yield "| part | " + " | ".join(parts) + " |\n|---|" + "--:|" * len(parts)
    for name in next(iter(parts.values())):
        yield f"| {name} | " + " | ".join(f"{part[name]:.2f}" for part in parts.values()) + " |"
    yield "\nThe smaller the budget, the larger the share of the overhead in Python; with large budgets nearly all is"
    yield "arithmetic. Blocks of a thousand rows or more spread the overhead over their rows; `learn_one` has it"
    yield "for every example.\n"
    yield "## Every learner against tasks, B and bytes\n"
    yield "![Microseconds per example of every learner](figures/time-per-example.svg)\n"
    yield "Written by `python benchmarks/speed/per_example.py`. All learners see the same stream with d = 28."
    yield "Their budgets are full before they are measured, except at 2 MiB: about 5,000 examples fit there, and most"
    yield "learners that evict or merge examples have 2,000 to 4,700 by then. Rules that only evict examples take about"
    yield "the time of the kernel row (B kernel values). The time of projection grows with B². `Budgetron` runs"
    yield "several models. `RelationPerceptron` stores a matrix over all pairs of tasks, so it is measured with"
    yield "at most 100 tasks.\n"
    if record["phases"]["functions"]:
        yield "## Share of the time per function, measured by perf\n"
        yield from function_names(record["phases"]["functions"])
        for name, shares in record["phases"]["functions"].items():
            yield f"- **{name}**: " + ", ".join(f"{function} {share:.0f} %" for function, share in shares if share >= 2)
    if record["float32"]:
        yield "\n## float32\n"
        yield FLOAT32
        for name, gain in record["float32"].items():
            yield f"- {name.replace('-', ', ')}: {gain:.2f} × as fast, half the bytes of the rows"
    missed = [row for row in record["rows"] if row["met"] is False]
    if missed:
        yield "\n## Targets missed in this run\n"
        yield "A figure with × is a ratio to another computation of the same run, which"
        yield "[the results](../benchmarks/speed/RESULTS.md) name. *In 0.1* is the figure of version 0.1 of this"
        yield "library.\n"
        yield from missed_table(missed)
        yield "\nThe causes:\n"
        yield from explained(missed)


def function_names(functions: Record) -> Iterator[str]:
    """Say what the names of functions in the list stand for."""
    listed = " ".join(function for shares in functions.values() for function, share in shares if share >= 2)
    meanings = {
        "products": "`products` are inner products",
        "gaussian": "`gaussian` is the exponential",
        "symmetric_pass": "`symmetric_pass` is the pass over a B × B triangle",
        "scatter": "`scatter` adds up the entries of the inverted index",
        "HashedTable": "`HashedTable` is the table of the weights of sparse features",
        "InvertedIndex": "`InvertedIndex` finds the stored sparse rows that have a feature",
        "[kernel": "`[kernel` is the operating system",
        "without a name": "*loops without a name* are the inner loops of the core, whose names a wheel does not have",
    }
    used = [meaning for name, meaning in meanings.items() if name in listed]
    if used:
        yield "; ".join(used) + ".\n"


def explained(missed: Sequence[Record]) -> Iterator[str]:
    """The rows that missed their targets, grouped by cause. The points of the cause follow each group."""
    causes: dict[tuple[str, ...], list[str]] = {}
    for row in missed:
        causes.setdefault(tuple(cause_of(row["name"])), []).append(f"**{row['work']}**")
    for cause, works in causes.items():
        # A single point follows in the same paragraph. Python-Markdown needs four spaces for a list within a list.
        yield f"- {'; '.join(works)}." + (f" {cause[0]}" if len(cause) == 1 else "")
        yield from (f"    - {point}" for point in cause if len(cause) > 1)


def missed_table(missed: Sequence[Record]) -> Iterator[str]:
    yield "| what | measured | target | in 0.1 |"
    yield "|---|--:|--:|--:|"
    yield from (f"| {row['work']} | {amount(row)} | {target(row)} | {ratio_in_0_1(row)} |" for row in missed)


def picture(rows: Sequence[Record]) -> str:
    """A bar chart with one bar per row. The dotted line is the target; longer bars miss it."""
    shown = [row for row in rows if row["ratio"] is not None]
    height, left, scale, longest = 20, 430, 180, 2.5  # pixels; a bar is at most 2.5 times as long as the target
    parts = []
    for i, row in enumerate(shown):
        of_target = max(0.0, row["ratio"] / row["reach"] if row["at_most"] else row["reach"] / max(row["ratio"], 1e-9))
        y, colour = 44 + i * height, "#009e73" if row["met"] else "#d55e00"
        width = max(1.0, scale * min(of_target, longest))
        parts.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{escape(row["work"][:72])}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{height - 6}" fill="{colour}"/>')
        label = f"{amount(row)} ({target(row)})"
        parts.append(f'<text x="{left + width + 6:.1f}" y="{y + 11}">{escape(label)}</text>')
    bottom = 50 + len(shown) * height
    parts.append(f'<path d="M{left + scale} 34V{bottom}" stroke="#222" stroke-dasharray="1 3"/>')
    parts.append(f'<text x="{left + scale}" y="28" text-anchor="middle">target</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1060 {bottom + 10}" width="1060" height="{bottom + 10}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img"><title>Speed relative to the targets'
        f'</title><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    write(json.loads(Path(__file__).with_name("results.json").read_text()), Path(__file__).parent)
