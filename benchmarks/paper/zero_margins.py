"""How much the F-measure on School, under the disconnected graph, depends on how margins of exactly 0 are counted.

    python benchmarks/paper/zero_margins.py FOLDER_WITH_DATA > benchmarks/paper/zero_margins.md

A zero margin can count as negative (as in this library), as positive, as always right, or as always wrong.
`docs/reproduce.md` refers to the table.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron import graphs
from budgetron.experiments.algorithms import ALGORITHMS, BASELINE, PAPER, CellSettings
from budgetron.experiments.blocks import block_named, ordered
from budgetron.experiments.printed import BASELINE as PRINTED_BASELINE
from budgetron.experiments.printed import SHARES, printed

ORDERS = 5
ROUNDING = 1e-12


def f_measure(positive: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    return float(200 * (positive & truth).sum() / (positive.sum() + truth.sum()))


def f_by_convention(margins: NDArray[np.float64], truth: NDArray[np.bool_]) -> list[float]:
    """F if zeros count as negative, positive, right and wrong; then how many zeros there are."""
    zero, above = np.abs(margins) < ROUNDING, margins >= ROUNDING
    zeros_as = (np.zeros_like(truth), np.ones_like(truth), truth, ~truth)
    return [f_measure(above | (zero & positive), truth) for positive in zeros_as] + [float(zero.sum())]


def main(folder: str) -> None:
    block = block_named("school")
    print(f"School, {block.formula}, disconnected graph (D); means over {ORDERS} orders. Made by zero_margins.py.\n")
    print("*Printed* is the F-measure in the paper, in percent. The next four columns are ours, if a margin of exactly")
    print("0 counts as negative, positive, right or wrong. *Zeros* is the number of such margins.\n")
    print("| | printed | zeros negative | positive | right | wrong | zeros |")
    print("|---" + "|---:" * 6 + "|")
    stored: dict[int, int] = {}
    for algorithm in ALGORITHMS:
        if algorithm.name not in (BASELINE, *PAPER):
            continue
        for share in (None,) if algorithm.name == BASELINE else SHARES:
            rows = []
            for seed in range(ORDERS):
                stream: Any = ordered(block.set_name, block.unit_norm, seed, folder)
                budget = 0 if share is None else round(share / 100 * stored[seed])
                model = algorithm.make(CellSettings(block.kernel, graphs.disconnected(), budget, 0, seed))
                margins = model.predict_then_learn(stream.X, stream.y, tasks=stream.tasks)
                stored.setdefault(seed, model.n_stored_)
                rows.append(f_by_convention(margins, stream.y == 1))
            figures = [f"{value:.1f}" for value in np.mean(rows, axis=0)]
            in_paper = PRINTED_BASELINE["school"] if share is None else printed("school", algorithm.name, "D", share)
            name = algorithm.name if share is None else f"{algorithm.name} D {share} %"
            print(f"| {name} | {in_paper} | {' | '.join(figures[:-1])} | {float(figures[-1]):,.0f} |")


if __name__ == "__main__":
    main(sys.argv[1])
