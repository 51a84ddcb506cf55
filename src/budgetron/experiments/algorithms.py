"""The rows of our Table 1: the baseline, the paper's four algorithms, and Budgetron.

The budget of a row may depend on the results of other rows: on the number of examples that the baseline stores, or on
the bytes of mtbprj-2. `Algorithm.after` names these other rows. Their runs are performed first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budgetron.graphs import TaskGraph
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners import (
    BudgetProjectron,
    Budgetron,
    Forgetron,
    Perceptron,
    RandomBudgetPerceptron,
    SharedProjectron,
)

ETA = 0.01  # the projection threshold η of mtbprj and mtbprj-2
BASELINE = "k-perceptrons"  # one Perceptron per task, without a budget
# The paper's names of RandomBudgetPerceptron, Forgetron, BudgetProjectron and SharedProjectron, with a task graph.
PAPER = ("mtrbp", "mtforg", "mtbprj", "mtbprj-2")
PROJECTIONS = ("mtbprj", "mtbprj-2")
SAME_BYTES_AS = "mtbprj-2"  # the row whose memory is the budget of Budgetron
BUDGETRON_SAME_EXAMPLES = "Budgetron, kernel only"
BUDGETRON_SAME_BYTES = "Budgetron, equal bytes"

# Budgetron gets the graph of the cell, the kernel of the block if that is Gaussian, and as many bytes as mtbprj-2 takes
# in the same cell (BUDGETRON_SAME_BYTES). Its other parameters have their defaults. The first version of Budgetron
# stored examples, and had a second row with as many examples as the other algorithms (BUDGETRON_SAME_EXAMPLES). Files
# of runs of that version still contain this row.


@dataclass(frozen=True)
class CellSettings:
    """The settings of a learner in one cell of the table. A column is a graph and a budget."""

    kernel: Kernel
    graph: TaskGraph
    budget: int  # B, the number of examples; 0 for the baseline, which has no budget
    bytes: int  # the memory of mtbprj-2 in this cell; 0 for rows that do not need it
    seed: int


@dataclass(frozen=True)
class Algorithm:
    """One row of the table."""

    name: str
    make: Callable[[CellSettings], Any]
    after: tuple[str, ...] = (BASELINE,)  # the rows whose results determine its budget
    effort: float = 1.0  # relative run time, used only to estimate the time left


ALGORITHMS = [
    Algorithm(BASELINE, lambda cell: Perceptron(cell.kernel, cell.graph), after=()),
    Algorithm("mtrbp", lambda cell: RandomBudgetPerceptron(cell.budget, cell.kernel, cell.graph, cell.seed)),
    Algorithm("mtforg", lambda cell: Forgetron(cell.budget, cell.kernel, cell.graph), effort=1.5),
    Algorithm("mtbprj", lambda cell: BudgetProjectron(cell.budget, cell.kernel, cell.graph, ETA), effort=3.0),
    Algorithm(
        "mtbprj-2", lambda cell: SharedProjectron(cell.budget, cell.kernel, cell.graph, ETA), effort=3.0
    ),
    Algorithm(
        BUDGETRON_SAME_BYTES,
        lambda cell: Budgetron(f"{cell.bytes} B", _gaussian(cell.kernel), cell.graph),
        after=(BASELINE, SAME_BYTES_AS),
        effort=6.0,
    ),
]


def _gaussian(kernel: Kernel) -> Kernel:
    """Return the cell's kernel if it is Gaussian, otherwise the default: Budgetron has no other kernels."""
    return kernel if isinstance(kernel, Gaussian) else Gaussian()


def algorithm_named(name: str) -> Algorithm:
    return next(algorithm for algorithm in ALGORITHMS if algorithm.name == name)
