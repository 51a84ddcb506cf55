"""Writes docs/algorithms/budgetron-results.md from results/NAME.json, one file per item (a group of measurements)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import HERE

PAGE = HERE.parents[1] / "docs" / "algorithms" / "budgetron-results.md"
HEAD = """# Budgetron: results

After reading this page, you know how many errors [`Budgetron`](budgetron.md) makes on real and synthetic streams,
beside its targets and beside other learners (*peers*). Budgetron makes one pass with default parameters, except for the
budget and, in the section Graph, the graph. Each example is predicted before it is learned.
`python benchmarks/accuracy/run.py` writes this page; the rows are in `benchmarks/accuracy/results`.

- The first table of each section lists its targets, and says whether they are met.
- *Version 0.1* is the learner `Budgetron` of the first version of this library. Its budget is a number of stored
  examples or a size.
- *Order*: figures are means over one or several orders. An order of a real set is random, or stored with the set; a
  synthetic stream is drawn again instead. The flights are read once, in the order of time. Ratios of speed use the
  fastest of several passes.
- *Met*: where Budgetron must be no worse than another learner, its error may exceed the other one by 0.1 points, or by
  two standard errors of their difference, paired by order, if that is more. All other targets have no tolerance; this
  includes those named *below* or *improved*.
- *ECE* is the expected calibration error, the mean distance between predicted probabilities and observed frequencies.
  In brackets is the ECE for labels that are *drawn* from the predictions themselves, which is due to chance alone.
- *KiB* is the memory that was allocated, and *µs* the time per example.
- *Labels rotated by task*: task k adds 3k to the digit, modulo 10, so that tasks differ in what a picture means.

"""
NOTES = """
*Peers* are tuned by a small grid on the first fifth of each stream; the chosen settings are in the JSON files. The
peers are:

- AdaGrad with shared and own weights, on standardised columns; at equal bytes its weights are in a hashed table, and
  sparse rows are scaled to length 1 instead;
- Vowpal Wabbit with `-q`, a weight for every pair of task and feature;
- random Fourier features with a diagonal Gaussian filter; FOGD and NOGD (Lu et al. 2016); Ahpatron (Liao et al. 2024);
- in the section Libraries, also learners of river and scikit-learn; river's forest has its default settings;
- in the section Graph, the learners of the paper with 500 stored examples, not tuned.

The budget of a peer counts the numbers that it stores, as float32 (Vowpal Wabbit: 16 bytes per weight). The
budget of Ahpatron, a learner of this library, counts all its bytes. AdaGrad without a hashed table has no budget.
Ahpatron and the learners of the paper have margins but no probabilities, so their log loss and ECE say nothing. The
time per example depends on the load of the machine, which is given with each table.
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
    if missed := [check for check in whole if check["met"] is False]:
        text += "These are missed:\n\n| what | figure | target |\n|---|---|---|\n"
        text += "".join(f"| {_cell(c['what'])} | {c['figure']} | {c['target']} |\n" for c in missed)
    if any(record["quick"] for record in rows):
        text += (
            "\nSections marked *first look* were run on the first 3,000 rows of each stream (`--quick`). "
            "They show that the measurement works. "
            "**They are no evidence for or against a target**, which is meant for whole streams.\n"
        )
    return text


def _section(record: dict[str, Any]) -> str:
    how = _orders(record)
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


def _orders(record: dict[str, Any]) -> str:
    """How many orders the rows have; some items use fewer than the command asked for."""
    counts = sorted({row["orders"] for row in record["rows"] if "orders" in row}) or [record["orders"]]
    text = " or ".join(map(str, counts))
    return f"{text} order{'s' if counts[-1] > 1 else ''}"


def _met(met: bool | None, quick: bool) -> str:
    return "–" if met is None or quick else "yes" if met else "**no**"


def _row(row: dict[str, Any]) -> str:
    size = f"{row['bytes'] / 1024:,.0f}" if "bytes" in row else ""
    micros = f"{row['micros']:.1f}" if "micros" in row else ""
    return (
        f"| {_cell(row['stream'])} | {row['learner']} | {_budget(row['budget'])} | {row['error']:.2f} | "
        f"{row['log_loss']:.3f} | {row['ece']:.3f} ({row['ece_drawn']:.3f}) | {size} | {micros} |"
    )


def _budget(budget: Any) -> str:
    """A budget; numbers above 10,000 are bytes, smaller ones are stored examples."""
    if isinstance(budget, int) and budget > 10_000:
        return f"{budget // 2**20} MiB" if budget % 2**20 == 0 else f"{budget // 1024} KiB"
    return "" if budget is None else str(budget)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
