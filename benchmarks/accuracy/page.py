"""Writes docs/algorithms/budgetron-results.md from the JSON of the items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import HERE

PAGE = HERE.parents[1] / "docs" / "algorithms" / "budgetron-results.md"
HEAD = """# Budgetron: results

After this page you know how many errors [`Budgetron`](budgetron.md) makes on real and synthetic streams, beside its
targets and beside other learners (*peers*). Budgetron makes one pass with default parameters; each example is predicted
before it is learned. `python benchmarks/accuracy/run.py` writes this page; the rows are in
`benchmarks/accuracy/results`.

- *Version 0.1* is the learner `Budgetron` of the first version of this library. Its budget is a number of stored
  examples or a size.
- *Order*: a stream is read in one or several random orders, and figures are means over them.
- *ECE* is the expected calibration error, the mean distance between predicted probabilities and observed frequencies.
  In brackets is the ECE for labels that are *drawn* from the predictions themselves, which is due to chance alone.
- *KiB* is the memory that was allocated, and *µs* the time per example.
- *Labels rotated by task*: task k adds 3k to the digit, modulo 10, so that tasks differ in what a picture means.

"""
NOTES = """
*Peers* are tuned by a small grid on the first fifth of each stream: AdaGrad on standardised columns with shared and own
weights; the same in a hashed table for sparse rows; random Fourier features with a diagonal Gaussian filter; FOGD and
NOGD (Lu et al. 2016); Ahpatron (Liao et al. 2024); Vowpal Wabbit with `-q` task × feature. Their settings are in the
JSON. A check that compares two learners allows a difference of 0.1 points, or of two standard errors of the paired
differences. The budget of a peer counts its weights and frequencies as float32; that of Ahpatron, which is a learner of
this library, counts all its bytes. Ahpatron has margins but no probabilities, so its log loss and ECE say nothing. Time
per example depends on the load of the machine, which is given with each table.
"""


def write_page(items: list[str], results: Path) -> None:
    rows = [
        json.loads(path.read_text(encoding="utf-8")) for name in items if (path := results / f"{name}.json").exists()
    ]
    if not rows:
        return
    text = HEAD + _summary(rows) + "".join(_section(record) for record in rows) + "\n## How it was measured\n" + NOTES
    missing = [name for name in items if name not in {record["item"] for record in rows}]
    if missing:
        text += f"\nNot measured yet: {', '.join(missing)}.\n"
    PAGE.write_text(text, encoding="utf-8")


def _summary(rows: list[dict[str, Any]]) -> str:
    whole = [check for record in rows if not record["quick"] for check in record["checks"]]
    met = sum(check["met"] is True for check in whole)
    judged = sum(check["met"] is not None for check in whole)
    text = f"**{met} of {judged} targets are met** in full runs.\n" if judged else ""
    if any(record["quick"] for record in rows):
        text += (
            "\nSections marked *first look* were run on the first 3,000 rows of each stream, on a busy machine and "
            "while the learner was still being changed. They show that the measurement works. "
            "**They are no evidence for or against a target**, which is meant for whole streams.\n"
        )
    return text


def _section(record: dict[str, Any]) -> str:
    how = f"{record['orders']} order{'s' if record['orders'] > 1 else ''}"
    quick = "first look, 3,000 rows, " if record["quick"] else ""
    lines = [f"\n## {record['item'].replace('-', ' ').capitalize()}\n", record["about"]]
    lines.append(f"*{quick}{how}; {record['date']}, {record['cores']} cores, load {record['load']}.*\n")
    if record["skipped"]:
        lines.append(f"Stopped early: {record['skipped']}.\n")
    if record["checks"]:
        lines += ["| what | figure | target | met |", "|---|---|---|---|"]
        lines += [
            f"| {_cell(c['what'])} | {c['figure']} | {c['target']} | {_met(c['met'], record['quick'])} |"
            for c in record["checks"]
        ]
        lines.append("")
    rows = [row for row in record["rows"] if "error" in row]
    if rows:
        lines += [
            "| stream | learner | budget | error % | log loss | ECE (drawn) | KiB | µs |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [_row(row) for row in rows]
        lines.append("")
    return "\n".join(lines) + "\n"


def _met(met: bool | None, quick: bool) -> str:
    return "–" if met is None or quick else "yes" if met else "**no**"


def _row(row: dict[str, Any]) -> str:
    size = f"{row['bytes'] / 1024:,.0f}" if "bytes" in row else ""
    micros = f"{row['micros']:.1f}" if "micros" in row else ""
    budget = row["budget"]
    budget = (
        "" if budget is None else f"{budget // 1024} KiB" if isinstance(budget, int) and budget > 10_000 else budget
    )
    return (
        f"| {_cell(row['stream'])} | {row['learner']} | {budget} | {row['error']:.2f} | {row['log_loss']:.3f} | "
        f"{row['ece']:.3f} ({row['ece_drawn']:.3f}) | {size} | {micros} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
