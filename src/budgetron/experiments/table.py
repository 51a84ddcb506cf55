"""Compute the table from the JSON files of the runs: mean and standard error of each cell over the orders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.experiments.algorithms import BASELINE, BUDGETRON_SAME_BYTES, BUDGETRON_SAME_EXAMPLES, PAPER
from budgetron.experiments.blocks import BLOCKS, TableBlock
from budgetron.experiments.printed import BASELINE as PRINTED_BASELINE
from budgetron.experiments.printed import printed

Key = tuple[str, str, str, int | None]  # block, algorithm, graph, share
ROWS = (*PAPER, BUDGETRON_SAME_EXAMPLES, BUDGETRON_SAME_BYTES)


@dataclass(frozen=True)
class Estimate:
    """Mean and standard error over the orders, in per cent."""

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if math.isnan(self.error) else f"{self.mean:.1f} ± {self.error:.1f}"


@dataclass(frozen=True)
class Table:
    """The cells of all runs: key → order → figures of the cell."""

    cells: Mapping[Key, Mapping[int, Mapping[str, Any]]]
    versions: frozenset[str] = field(default_factory=frozenset)

    @property
    def blocks(self) -> list[TableBlock]:
        """The blocks whose baseline was run."""
        return [block for block in BLOCKS if (block.name, BASELINE, "D", None) in self.cells]

    @property
    def n_orders(self) -> int:
        return max((len(orders) for orders in self.cells.values()), default=0)

    def rows(self, block: TableBlock) -> list[str]:
        """Return the algorithms with cells in a block, without the baseline."""
        return [name for name in ROWS if any(key[:2] == (block.name, name) for key in self.cells)]

    def values(self, key: Key, figure: str) -> dict[int, float]:
        """Return one figure of a cell by order, as a percentage."""
        return {seed: 100.0 * cell[figure] for seed, cell in self.cells.get(key, {}).items()}

    def estimate(self, key: Key, figure: str = "f_measure") -> Estimate | None:
        """Return mean and standard error of a figure; None for a cell that was not run."""
        values = list(self.values(key, figure).values())
        return _estimate(np.array(values)) if values else None

    def paired(self, first: Key, second: Key, figure: str = "f_measure") -> Estimate | None:
        """Return mean and standard error of first minus second, order by order: effects of an order on both cancel."""
        first_values, second_values = self.values(first, figure), self.values(second, figure)
        # Only orders that both rows were run on.
        differences = [first_values[seed] - second_values[seed] for seed in first_values if seed in second_values]
        return _estimate(np.array(differences)) if differences else None

    def printed(self, key: Key) -> float | None:
        """Return the printed F of a cell, also for our second School block; None for rows that the paper lacks."""
        block = next(block for block in BLOCKS if block.name == key[0])
        if key[1] == BASELINE:
            return PRINTED_BASELINE[block.set_name]
        assert key[3] is not None
        return printed(block.set_name, key[1], key[2], key[3])

    def median(self, key: Key, figure: str) -> float | None:
        """Return the median of a figure over the orders, in its own unit."""
        cells = self.cells.get(key, {}).values()
        values = [cell[figure] for cell in cells if cell.get(figure) is not None]
        return float(np.median(values)) if values else None

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one record per cell, for JSON."""
        records = []
        for key in self.cells:
            f, wrong = self.estimate(key), self.estimate(key, "error")
            assert f is not None and wrong is not None
            names: dict[str, Any] = dict(zip(("block", "algorithm", "graph", "share"), key, strict=True))
            estimates = {
                "f": f.mean,
                "f_se": f.error,
                "error": wrong.mean,
                "error_se": wrong.error,
                "orders": f.n,
            }
            sizes = {name: self.median(key, name) for name in ("stored", "bytes", "seconds")}
            records.append(names | estimates | {"printed": self.printed(key)} | sizes)
        return [
            # JSON has no NaN.
            {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in record.items()}
            for record in records
        ]


def table_of(runs: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of these runs."""
    cells: dict[Key, dict[int, Mapping[str, Any]]] = {}
    versions = set()
    for run in runs:
        parameters = run["parameters"]
        versions.add(run["version"])
        for cell in run["cells"]:
            key = (parameters["block"], parameters["algorithm"], cell["graph"], cell["share"])
            cells.setdefault(key, {})[parameters["seed"]] = cell
    return Table(cells, frozenset(versions))


def _estimate(values: NDArray[np.float64]) -> Estimate:
    """Return mean and standard error; one value has no standard error (NaN)."""
    n = len(values)
    return Estimate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan, n)
