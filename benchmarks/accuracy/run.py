"""Measure the errors of Budgetron, and say whether its targets are met.

    python benchmarks/accuracy/run.py [--only NAME ...] [--quick] [--orders N] [--data FOLDER] [--version-0-1 PYTHON]

Other learners (*peers*) run on the same streams. An *item* is one group of measurements. Each item writes
`results/NAME.json`. From these, `page.py` makes `docs/algorithms/budgetron-results.md`, and `compared.py` makes the
table of `docs/compared.md`. FOLDER has the classic sets, `kernel/*.npz`; `budgetron.data` finds the other sets. With
--quick every stream is cut to 3,000 rows. That shows that the command works, but says nothing about the targets, so
such results are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import on_budgets
import on_data
import on_libraries
import on_structure
from bench import HERE, Bench, Skipped
from compared import write_compared
from page import write_page

from budgetron import __version__

RESULTS = HERE / "results"
ITEMS: dict[str, Callable[[Bench], None]] = {
    "text": on_data.text,
    "text-speed": on_data.text_speed,
    "dense": on_data.dense,
    "dense-bytes": on_data.dense_bytes,
    "classic": on_data.classic,
    "many-tasks": on_data.many_tasks,
    "libraries": on_libraries.libraries,
    "graph": on_structure.graph,
    "relations": on_structure.relations,
    "bytes-used": on_budgets.bytes_used,
    "doubling": on_budgets.doubling,
    "weaknesses": on_structure.weaknesses,
    "drift": on_structure.drift,
    "multiclass": on_structure.multiclass,
    "speed": on_budgets.speed,
    "calibration": on_budgets.calibration,  # reads the results of the others
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ITEMS, metavar="NAME", help=", ".join(ITEMS))
    parser.add_argument("--quick", action="store_true", help="3,000 rows of every stream")
    parser.add_argument("--orders", type=int, default=5, help="orders of every stream (default 5)")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("BUDGETRON_DATA", "data")),
                        help="the folder with kernel/*.npz (default: $BUDGETRON_DATA, or data)")  # fmt: skip
    parser.add_argument(
        "--version-0-1", dest="python_0_1", metavar="PYTHON", help="the Python of an environment with version 0.1"
    )
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    others = {path.stem: json.loads(path.read_text(encoding="utf-8"))["rows"] for path in RESULTS.glob("*.json")}
    for name in arguments.only or ITEMS:
        item = ITEMS[name]
        print(f"{name}: {(item.__doc__ or '').strip()}")
        bench = Bench(arguments.data, arguments.orders, arguments.quick, arguments.python_0_1, others=others)
        stopped = None
        try:
            item(bench)
        except Skipped as reason:
            stopped = str(reason)
            print(f"  skipped: {reason}")
        others[name] = bench.rows
        record = {
            "item": name, "about": (item.__doc__ or "").strip(), "version": __version__,
            "date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version(),
            "machine": platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
            "quick": arguments.quick, "orders": arguments.orders, "skipped": stopped, "checks": bench.checks,
            "rows": bench.rows,
        }  # fmt: skip
        if bench.rows or bench.checks:
            (RESULTS / f"{name}.json").write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    write_page(list(ITEMS), RESULTS)
    write_compared(RESULTS)


if __name__ == "__main__":
    main()
