"""Compute mean results over the orders of each data set, and render them beside the published values.

The results are read from the JSON files of the runs; the tables are Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgetron.experiments.kernel.printed import COLUMNS, printed, reason
from budgetron.experiments.kernel.rows import ROWS
from budgetron.experiments.kernel.sets import SETS
from budgetron.experiments.runs import load_json

LARGE_DIFFERENCE = 1.0  # differences of more points than this are explained one by one


@dataclass(frozen=True)
class Estimate:
    """A cell of the table: means over the orders of a set. `error` is in per cent.

    `deviation` is the standard deviation of the error over the orders, also in per cent.
    """

    error: float
    deviation: float
    seconds: float
    bytes: float
    stored: float
    orders: int


@dataclass(frozen=True)
class KernelTable:
    cells: dict[tuple[str, str], Estimate]
    majority: dict[str, float]

    @property
    def sets(self) -> list[str]:
        return [name for name in COLUMNS if name in self.majority]

    def differences(self) -> dict[tuple[str, str], float]:
        """Return our error minus the published one, for every published cell that was run."""
        return {
            (row, name): cell.error - value
            for (row, name), cell in self.cells.items()
            if (value := printed(row, name)) is not None
        }

    def to_dict(self) -> list[dict[str, Any]]:
        return [
            {"row": row, "set": name, **vars(cell), "printed": printed(row, name)}
            for (row, name), cell in self.cells.items()
        ]


def table_of(out: Path, sets: list[str]) -> KernelTable:
    """Read the results of these sets from all files below a folder."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted((out / "runs").glob("*/*.json")):
        content = load_json(path)
        if content is not None and content["parameters"]["set"] in sets:
            key = content["parameters"]["row"], content["parameters"]["set"]
            runs.setdefault(key, []).extend(content["cells"])
    cells = {key: _estimate(results) for key, results in runs.items()}
    majority = {name: 100 * float(results[0]["majority"]) for (_, name), results in runs.items()}
    order = [(row.name, name) for row in ROWS for name in COLUMNS if (row.name, name) in cells]
    return KernelTable({key: cells[key] for key in order}, majority)


def _estimate(results: list[dict[str, Any]]) -> Estimate:
    errors = [100 * result["error"] for result in results]
    mean = {name: float(np.mean([result[name] for result in results])) for name in ("seconds", "bytes", "stored")}
    return Estimate(float(np.mean(errors)), float(np.std(errors)), **mean, orders=len(results))


def markdown(table: KernelTable, heading: str = "##") -> str:
    """Render the tables and the list of differences."""
    orders = ", ".join(f"{name} {max(cell.orders for (_, of), cell in table.cells.items() if of == name)}"
                       for name in table.sets)  # fmt: skip
    lines = [
        f"Mistake rate in per cent: mean ± standard deviation over the orders ({orders}), then in brackets the printed "
        "value and our value minus it. *Majority* always predicts the most frequent class of the set.",
        "",
        _row("", [f"{name}, B = {SETS[name].budget}" for name in table.sets]),
        "|---|" + "---:|" * len(table.sets),
        _row("*majority*", [f"*{table.majority[name]:.1f}*" for name in table.sets]),
    ]
    lines += [_row(row.name, [_cell(table, row.name, name) for name in table.sets]) for row in ROWS]
    lines += ["", f"{heading} Differences", "", *_differences(table)]
    lines += ["", f"{heading} Time and memory", "", "Microseconds per example, and KiB of the whole model.", "",
              _row("", table.sets), "|---|" + "---:|" * len(table.sets)]  # fmt: skip
    lines += [_row(row.name, [_cost(table, row.name, name) for name in table.sets]) for row in ROWS]
    return "\n".join(lines) + "\n"


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def _cell(table: KernelTable, row: str, name: str) -> str:
    cell = table.cells.get((row, name))
    if cell is None:
        return ""
    value = printed(row, name)
    published = "" if value is None else f" ({value:g}, {cell.error - value:+.1f})"
    return f"{cell.error:.1f} ± {cell.deviation:.1f}{published}"


def _cost(table: KernelTable, row: str, name: str) -> str:
    cell = table.cells.get((row, name))
    return "" if cell is None else f"{1e6 * cell.seconds / SETS[name].n:.1f} µs, {cell.bytes / 1024:.0f}"


def _differences(table: KernelTable) -> list[str]:
    """Return the mean difference to the printed values, and one line per large difference."""
    differences = table.differences()
    if not differences:
        return ["No printed cell was run."]
    large = {key: value for key, value in differences.items() if abs(value) > LARGE_DIFFERENCE}
    mean = float(np.mean([abs(value) for value in differences.values()]))
    lines = [
        f"Over {len(differences)} printed cells the mean absolute difference is {mean:.2f} points; "
        f"{len(differences) - len(large)} differ by at most {LARGE_DIFFERENCE:g}. The others:",
        "",
    ]
    return lines + [f"- {row} on {name}, {value:+.1f}: {reason(row, name)}." for (row, name), value in large.items()]
