"""`make bench`: measure every speed target.

    python benchmarks/speed/run.py [--quick] [--only NAME] [--out DIR] [--repetitions N]

--only takes the name of a group and may be repeated. --quick measures smaller problems with fewer repetitions, and
skips the slow groups. Writes results.json and ratios.svg, and from them RESULTS.md (with --docs also docs/speed.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import blas_one_thread  # noqa: F401  before NumPy is imported
import files
import learners
import many_tasks
import phases
import report
import scaling
import singles
import sparse
import startup
from measure import Row

GROUPS: dict[str, Callable[[int, bool], Iterator[Row]]] = {
    "gaussian": learners.gaussian_rows,
    "projection": learners.projection_rows,
    "shared": many_tasks.shared_rows,
    "shared-graph": many_tasks.shared_graph_rows,
    "forgetron": many_tasks.forgetron_rows,
    "flagship": learners.budgetron_rows,
    "linear": sparse.vowpal_rows,
    "text": sparse.text_rows,
    "tasks": scaling.task_rows,
    "graph": scaling.graph_rows,
    "learn": singles.single_rows,
    "files": files.file_rows,
    "replay": files.replay_rows,
    "two": scaling.core_rows,
    "growth": scaling.growth_rows,
    "start": startup.startup_rows,
    "memory": scaling.memory_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer repetitions: under a minute")
    parser.add_argument("--only", action="append", choices=[*GROUPS, "phases"], help="a group of rows; may be repeated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="the folder for the results")
    parser.add_argument("--docs", type=Path, help="also write the profile page to this file")
    parser.add_argument("--repetitions", type=int, default=11, help="interleaved repetitions per row")
    arguments = parser.parse_args()
    chosen = arguments.only or [*GROUPS, "phases"]
    if arguments.quick and not arguments.only:
        chosen = [name for name in chosen if name not in ("memory", "phases")]

    rows: list[Row] = []
    for name, measured in GROUPS.items():
        if name in chosen:
            for row in measured(3 if arguments.quick else arguments.repetitions, arguments.quick):
                rows.append(row)
                report.print_row(row)
    results = report.results(rows, arguments.quick)
    if "phases" in chosen:
        results["phases"] = phases.measured(arguments.quick)
    report.write(results, arguments.out, arguments.docs)


if __name__ == "__main__":
    main()
