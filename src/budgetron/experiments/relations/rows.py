"""The learners that are compared, and the values that Saha et al. (2011) printed.

Kernels are linear, because the streams are linear; only Budgetron has its default kernel. The paper's learners store at
most 200 examples. Saha et al. give no value of their rate η (`rate`): 0.01 for LogDet and 0.001 for von Neumann are the
largest values with which the printed rules are stable. `start` is the number of examples before relations are learned:
half of the training set on "opposed" (Saha et al. call this an Epoch of 0.5), and 500 on other streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budgetron import graphs
from budgetron.data.synthetic import grid_graph
from budgetron.kernels import Linear
from budgetron.learners import (
    BudgetProjectron,
    Budgetron,
    Forgetron,
    LinearPerceptron,
    Perceptron,
    RandomBudgetPerceptron,
    RelationPerceptron,
    SecondOrderPerceptron,
    SharedProjectron,
    ShiftingPerceptron,
)

BUDGET = 200
# Correlations of (w_1, w_2), (w_1, w_3), (w_2, w_3) in Table 1 of Saha et al., one run.
PRINTED = {
    "complete graph": (-0.2030, 0.5217, 0.1371),
    "LogDet": (-0.9059, 0.0003, 0.1225),
    "von Neumann": (-0.8171, 0.0322, 0.1295),
}


@dataclass(frozen=True)
class Row:
    """One learner, and the streams that it runs on."""

    name: str
    make: Callable[[str], Any]
    streams: str = "opposed kinds grid"


def _graph(stream: str) -> Any:
    """Return the complete graph. Its similarities depend on the number of tasks, which shifting streams leave open."""
    return graphs.complete(n_tasks={"opposed": 3, "kinds": 40, "grid": 100}.get(stream))


def _relations(kind: str, rate: float = 0.01, **parameters: Any) -> Callable[[str], Any]:
    """Return a function that creates a `RelationPerceptron` of this kind for a stream."""

    def make(stream: str) -> Any:
        tasks, start = {"opposed": 3, "kinds": 40, "grid": 100}[stream], 100 if stream == "opposed" else 500
        return RelationPerceptron(kind, rate=rate, start=start, n_tasks=tasks, **parameters)

    return make


_RELATED, _SHIFTING = "opposed kinds grid", "steady turn drift several"
_ALL = f"{_RELATED} {_SHIFTING}"
_LINEAR = Linear()
ROWS = (
    Row("independent", lambda stream: LinearPerceptron(graph=graphs.disconnected())),
    Row("complete graph", lambda stream: LinearPerceptron(graph=_graph(stream))),
    Row("true graph", lambda stream: LinearPerceptron(graph=grid_graph()), "grid"),
    Row("p-norm", lambda stream: LinearPerceptron(norm="auto", graph=_graph(stream))),
    Row("second order", lambda stream: SecondOrderPerceptron(BUDGET, _LINEAR, _graph(stream)), _ALL),
    Row("LogDet", _relations("logdet")),
    Row("LogDet, rank 5", _relations("logdet", rank=5), "kinds grid"),
    Row("von Neumann", _relations("von-neumann", rate=0.001)),
    Row("Cov", _relations("covariance")),
    Row("Cov, inverted as printed", _relations("covariance", as_printed=True), "opposed"),
    Row("BatchOpt", _relations("batch")),
    Row("2p-norm, p = 2", _relations("spectral")),
    Row("2p-norm, p = 4", _relations("spectral", power=4.0)),
    Row("Perceptron", lambda stream: Perceptron(kernel=_LINEAR), _SHIFTING),
    Row("Shifting Perceptron", lambda stream: ShiftingPerceptron.preset("shifting-perceptron", kernel=_LINEAR),
        _SHIFTING),
    Row("fixed-shrink Forgetron", lambda stream: ShiftingPerceptron(BUDGET, _LINEAR), _SHIFTING),
    Row("fixed-shrink, B = 1000", lambda stream: ShiftingPerceptron(1000, _LINEAR), _SHIFTING),
    Row("mtrbp", lambda stream: RandomBudgetPerceptron(BUDGET, _LINEAR, _graph(stream)), _ALL),
    Row("mtforg", lambda stream: Forgetron(BUDGET, _LINEAR, _graph(stream)), _ALL),
    Row("mtbprj", lambda stream: BudgetProjectron(BUDGET, _LINEAR, _graph(stream)), _ALL),
    Row("mtbprj-2", lambda stream: SharedProjectron(BUDGET, _LINEAR, _graph(stream)), _ALL),
    Row("Budgetron", lambda stream: Budgetron(), _ALL),
)  # fmt: skip


def rows_for(stream: str) -> list[Row]:
    """Return the learners that run on a stream."""
    return [row for row in ROWS if stream in row.streams.split()]
