"""Items about the budget: bytes used, doubling, calibration, and time against version 0.1."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bench import PYTHON, Bench, Row, Skipped, interleaved, slack
from on_data import named_streams, size
from streams import Stream

from budgetron.errors import TooFewBytes


def bytes_used(bench: Bench) -> None:
    """At the end of a stream, between 90 and 100 % of a byte budget is used."""
    for name in ("ijcnn1", "sentiment", "users"):
        for budget in ("100 KiB", "1 MiB"):
            share = 100 * bench.run_budgetron(named_streams(bench, name)[:1], budget)["bytes"] / size(budget)
            bench.check(f"{name}, {budget}: used", f"{share:.1f} %", "90 to 100 %", 90 <= share <= 100)


def doubling(bench: Bench) -> None:
    """Doubling the budget never increases the error by more than 0.1 points."""
    for name in ("ijcnn1", "magic04", "sentiment", "spam", "chem97", "school", "exam", "kinds", "grid"):
        try:
            streams = named_streams(bench, name)
        except Skipped as reason:
            print(f"  {reason}")
            continue
        rows = [bench.run_budgetron(streams, f"{64 * 2**k} KiB") for k in range(0, 7, 3 if bench.quick else 1)]
        worst = max(after["error"] - before["error"] for before, after in pairwise(rows))
        bench.at_most(f"{name}: largest increase in error from one budget to the next", worst, 0.1, " points")


def calibration(bench: Bench) -> None:
    """The expected calibration error (ECE) of all runs above, against that of labels drawn from the predictions."""
    rows = [
        row
        for item in bench.others.values()
        for row in item
        if str(row["learner"]).startswith("Budgetron") and "ece_drawn" in row
    ]
    if not rows:
        raise Skipped("there are no results of other items")
    for name in dict.fromkeys(row["stream"] for row in rows):
        worst = max((row for row in rows if row["stream"] == name), key=lambda row: row["ece"] - row["ece_drawn"])
        excess = worst["ece"] - worst["ece_drawn"]
        bench.at_most(f"{name} ({worst['budget'] or 'default'}): ECE above that of drawn labels", excess, 0.01, "")


def speed(bench: Bench) -> None:
    """Faster than version 0.1: in the smallest budget that is no worse than 0.1 at B = 400, and by default."""
    if bench.python_0_1 is None:
        raise Skipped("no --version-0-1")
    for name, factor in (("a9a", 5.0), ("ijcnn1", 5.0), ("school", 3.0)):
        streams = named_streams(bench, name)
        stream, before = streams[0], bench.run_version_0_1(streams, 400)
        assert before is not None  # because there is a Python with version 0.1
        budget = _smallest_budget(bench, streams, before)
        if budget is None:
            what = f"{name}: faster than 0.1 at B = 400"
            bench.check(what, "0.1 is better at every size up to 4 MiB", f"≥ {factor:g} ×", False)
            continue
        both = interleaved(bench, stream, {"version 0.1": (bench.python_0_1, 400), "Budgetron": (PYTHON, budget)})
        times = both["version 0.1"]["micros"] / both["Budgetron"]["micros"]
        bench.at_least(f"{name}: Budgetron in {budget} is faster than 0.1 at B = 400", times, factor, " ×")
    for name in ("a9a", "ijcnn1", "magic04", "school", "exam", "chem97"):
        stream = named_streams(bench, name)[0]
        both = interleaved(
            bench, stream, {"version 0.1": (bench.python_0_1, "default"), "Budgetron": (PYTHON, "default")}
        )
        bench.at_least(
            f"{name}: faster than 0.1, defaults", both["version 0.1"]["micros"] / both["Budgetron"]["micros"], 2, " ×"
        )


def _smallest_budget(bench: Bench, streams: list[Stream], before: Row) -> str | None:
    """The smallest budget, from 32 KiB to 4 MiB, that is no worse than `before`; None if no budget is enough."""
    for k in range(8):
        budget: Any = f"{32 * 2**k} KiB"
        try:
            row: Row = bench.run_budgetron(streams, budget)
        except TooFewBytes:  # rows with many columns need a larger budget
            continue
        if row["error"] <= before["error"] + slack(row, before):
            return str(budget)
    return None
