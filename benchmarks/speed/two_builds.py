"""Compare two builds of Budgetron, row by row, such as this version and version 0.1.

    python benchmarks/speed/two_builds.py PYTHON PYTHON [--rounds 5] [--only GROUP] [--out FILE]

Each build is installed for one of the two Pythons. Their processes run in turns, each with one group of workloads.py. A
process reports the minimum of its repetitions in processor time; the table has the medians over the rounds, and the
median and the quartiles of the ratios: time of the second build divided by time of the first. --out writes the results
as JSON; two_builds.json has those of this version and version 0.1, and RESULTS.md shows them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WORKLOADS = Path(__file__).with_name("workloads.py")
GROUPS = (
    "dense", "budgets", "shared", "shared-many", "shared-graph", "sparse", "tasks", "graph", "singles", "files",
    "starts",
)  # fmt: skip
Times = Mapping[str, Mapping[str, float]]


def run(python: str, group: str) -> Times:
    """The times of one group, by row, in a new process."""
    done = subprocess.run([python, str(WORKLOADS), group], stdout=subprocess.PIPE, text=True, check=True)
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def compare(pythons: Sequence[str], group: str, rounds: int) -> Iterator[dict[str, Any]]:
    """The rows of a group."""
    runs: list[tuple[Times, Times]] = []
    for turn in range(rounds):
        # The order alternates, so that neither build always runs on a warmer processor.
        times = {side: run(pythons[side], group) for side in ((0, 1) if turn % 2 == 0 else (1, 0))}
        runs.append((times[0], times[1]))
        print(".", end="", file=sys.stderr, flush=True)
    for name in runs[0][0]:
        ratios = [second[name]["us"] / first[name]["us"] for first, second in runs]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if rounds > 1 else ratios * 3
        first_us, second_us = (statistics.median(pair[side][name]["us"] for pair in runs) for side in (0, 1))
        same_work = runs[0][0][name]["mistakes"] == runs[0][1][name]["mistakes"]
        yield {"group": group, "work": name, "first_us": first_us, "second_us": second_us, "ratio": middle,
               "quartiles": [low, high], "rounds": rounds, "same_mistakes": same_work}  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| work | {first}, µs | {second}, µs | ratio | quartiles |"
    yield "|---|--:|--:|--:|--:|"
    for row in rows:
        name = row["work"] + ("" if row["same_mistakes"] else " (not the same mistakes)")
        times = f"{row['first_us']:.3g} | {row['second_us']:.3g}"
        yield f"| {name} | {times} | {row['ratio']:.2f} | {row['quartiles'][0]:.2f} – {row['quartiles'][1]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=GROUPS, help="a group of rows; may be repeated")
    parser.add_argument("--out", type=Path, help="a JSON file; groups that were not measured now stay in it")
    arguments = parser.parse_args()
    chosen = arguments.only or GROUPS
    known = arguments.out and arguments.out.exists()
    earlier = [row for row in (json.loads(arguments.out.read_text()) if known else []) if row["group"] not in chosen]
    rows = [row for group in chosen for row in compare(arguments.python, group, arguments.rounds)]
    print(file=sys.stderr)
    print("\n".join(table(rows, "first", "second")))
    if arguments.out:
        ordered = sorted(earlier + rows, key=lambda row: GROUPS.index(row["group"]))
        arguments.out.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
