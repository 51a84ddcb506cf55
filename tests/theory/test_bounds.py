"""The formulas of the theorems, and runs that must not violate them: a violation is an error in our code.

Theorem 1 bounds the expected mistakes of a RandomBudgetPerceptron, so its tests take the mean over several seeds.
Theorem 2 bounds the mistakes of a Forgetron.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import BudgetProjectron, Forgetron, RandomBudgetPerceptron, graphs, kernels, theory
from budgetron.data import synthetic, unit_norm
from budgetron.errors import InputError
from budgetron.theory.bounds import random_budget_bound_at

K = 20  # tasks


def fitted(model, stream):
    X, y, tasks = stream
    return model.fit(X, y, tasks=tasks)


def test_both_bounds_computed_by_hand() -> None:
    # With B = 16 and c = 1/2, √B is 4 and the radius is 4, so a norm of 1 gives ε = 1/4.
    theorem_1 = theory.random_budget_bound(hinge_loss=10.0, norm=1.0, shift=3.0, c=0.5, budget=16)
    assert theorem_1.radius == 4.0 and theorem_1.epsilon == 0.25
    assert theorem_1.mistakes == pytest.approx(
        (10 + 0.5 * 3 * 4 + 0.25 * 64 / 2 + 0.25 * 4 * math.log(16 / 3)) / 0.75
    )
    theorem_2 = theory.forgetron_bound(hinge_loss=10.0, norm=1.0, c=0.5, budget=99)
    assert theorem_2.mistakes == pytest.approx(40 + 100 / (2 * math.log(100)))
    assert theorem_2.radius == pytest.approx(10 / math.sqrt(math.log(100)) / 2)


@given(
    st.floats(0, 1e4), st.floats(1e-3, 0.999), st.floats(0, 50), st.floats(0.05, 1.0), st.integers(1, 5000)
)
@settings(deadline=None)
def test_the_smallest_epsilon_is_the_best(
    loss: float, share: float, shift: float, c: float, budget: int
) -> None:
    norm = share * theory.random_budget_radius(budget, c)
    bound = theory.random_budget_bound(loss, norm, shift, c, budget)
    assert bound.epsilon is not None
    for epsilon in np.linspace(bound.epsilon, 0.9999, 60):  # the values of ε that the norm allows
        assert bound.mistakes <= random_budget_bound_at(float(epsilon), loss, shift, c, budget) * (1 + 1e-12)
    assert norm <= theory.random_budget_radius(budget, c, bound.epsilon) * (1 + 1e-12)


def test_a_comparator_beyond_the_radius_has_no_bound() -> None:
    assert (
        theory.random_budget_bound(0.0, theory.random_budget_radius(100, 0.7), 0.0, 0.7, 100).mistakes
        == math.inf
    )
    assert (
        theory.forgetron_bound(0.0, 1.001 * theory.forgetron_radius(100, 0.7), 0.7, 100).mistakes == math.inf
    )
    assert theory.forgetron_bound(0.0, 0.1, 0.7, 83).mistakes == math.inf
    assert theory.forgetron_bound(0.0, 0.1, 0.7, 84).mistakes < math.inf


Stream = tuple[np.ndarray, np.ndarray, np.ndarray]


def easy(seed: int, n: int = 3000, share: float = 0.6, flipped: float = 0.0) -> Stream:
    """Rows of norm 1. Their first entry is ±`share`, and its sign is the label; some labels are flipped."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], size=n)
    noise = rng.standard_normal((n, 2))
    noise *= np.sqrt(1 - share**2) / np.linalg.norm(noise, axis=1, keepdims=True)
    X = np.column_stack([share * y, noise])
    return X, np.where(rng.random(n) < flipped, -y, y), rng.integers(0, K, size=n)


def first_axis(graph: graphs.TaskGraph) -> theory.Comparator:
    """The comparator that is the first unit vector for every task. On `easy`, it is wrong on flipped labels only."""
    return theory.linear_comparator(range(K), np.eye(1, 3).repeat(K, axis=0), graph)


@pytest.mark.parametrize("seed", range(6))
def test_theorem_2_is_not_trivial_and_holds(seed: int) -> None:
    stream, graph = easy(seed), graphs.complete(n_tasks=K)
    model = fitted(Forgetron(budget=800, kernel=kernels.Linear(), graph=graph), stream)
    guarantee = theory.guarantee(model, stream, first_axis(graph), scale="best")
    # The bound is so low that a learner that does not learn would violate it.
    assert guarantee.bound is not None and guarantee.bound < 0.05 * len(stream[1])
    assert 0 < guarantee.mistakes <= guarantee.bound and guarantee.holds
    sentence = f"made {model.n_mistakes_} mistakes; at most {guarantee.bound:.0f}"
    assert str(guarantee) == f"{sentence} against this comparator"


def test_both_theorems_hold_while_the_budget_overflows() -> None:
    stream, graph = easy(0, n=20_000, share=0.9, flipped=0.03), graphs.complete(n_tasks=K)
    forgetron = fitted(Forgetron(300, kernels.Linear(), graph), stream)
    perceptrons = [
        fitted(RandomBudgetPerceptron(100, kernels.Linear(), graph, random_state=c), stream) for c in range(6)
    ]
    mean = float(np.mean([model.n_mistakes_ for model in perceptrons]))
    for model, mistakes in ((forgetron, forgetron.n_mistakes_), (perceptrons[0], mean)):
        guarantee = theory.guarantee(model, stream, first_axis(graph), mistakes=mistakes, scale="best")
        assert guarantee.bound is not None and model.capacity_ < mistakes <= guarantee.bound < 0.5 * len(
            stream[1]
        )


@pytest.mark.parametrize("seed", range(3))
def test_theorem_1_is_not_trivial_and_holds_on_average(seed: int) -> None:
    stream, graph = easy(seed), graphs.complete(n_tasks=K)
    perceptrons = [
        fitted(RandomBudgetPerceptron(40, kernels.Linear(), graph, random_state=random_state), stream)
        for random_state in range(12)
    ]
    mean = float(np.mean([model.n_mistakes_ for model in perceptrons]))
    guarantee = theory.guarantee(perceptrons[0], stream, first_axis(graph), mistakes=mean, scale="best")
    assert guarantee.bound is not None and guarantee.bound < 0.3 * len(stream[1])
    assert 0 < mean <= guarantee.bound
    assert "in expectation at most" in str(guarantee) and guarantee.epsilon is not None and 0 < guarantee.epsilon < 1


GRAPHS = {
    "complete": graphs.complete(n_tasks=4),
    "open": graphs.complete(),
    "disconnected": graphs.disconnected(),
    "path": graphs.from_edges([(0, 1), (1, 2), (2, 3)]),
    "clusters": graphs.clusters({0: "p", 1: "p", 2: "q", 3: "q"}),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_no_stream_violates_a_theorem(graph: graphs.TaskGraph, seed: int) -> None:
    """The streams are noisy, non-linear, or have adversarial labels. Each of two comparators has its best scale."""
    noise, form = [0.0, 0.3][seed % 2], ["linear", "gaussian"][seed // 2]
    data, _ = synthetic.stream(600, d=5, n_tasks=4, relatedness=0.6, noise=noise, form=form, seed=seed)
    kernel = kernels.Gaussian(gamma=0.2)
    labels = [data.y, _adversarial_labels(Forgetron(90, kernel, graph), data.X, data.tasks)]
    for y in labels:
        stream = (data.X, y, data.tasks)
        forgetron = fitted(Forgetron(90, kernel, graph), stream)
        perceptrons = [fitted(RandomBudgetPerceptron(30, kernel, graph, random_state=c), stream) for c in range(8)]
        mean = float(np.mean([model.n_mistakes_ for model in perceptrons]))
        for source in (forgetron, fitted(BudgetProjectron(60, kernel, graph), stream)):
            g = theory.model_comparator(source, range(4))
            for guarantee in (
                theory.guarantee(forgetron, stream, g, scale="best"),
                theory.guarantee(perceptrons[0], stream, g, scale="best", mistakes=mean),
            ):
                assert guarantee.bound is not None and guarantee.holds, guarantee


def _adversarial_labels(model: Any, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return labels that make every prediction of the model a mistake."""
    labels = []
    for x, task in zip(X, tasks, strict=True):
        is_fitted = hasattr(model, "n_seen_")
        margin = model.decision_function(x[None], tasks=[task])[0] if is_fitted else 0.0
        labels.append(0 if margin > 0 else 1)
        model.learn_one(x, labels[-1], task=task, classes=[0, 1])
    assert model.n_mistakes_ == len(labels)
    return np.array(labels)


@pytest.mark.parametrize("seed", range(4))
def test_theorem_1_with_a_comparator_that_shifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift = synthetic.Shift.abrupt(0.5, 120.0, alike=bool(seed % 2))
    data, truth = synthetic.stream(2000, d=12, n_tasks=4, relatedness=0.9, shift=shift, seed=seed)
    X, graph = unit_norm(data.X), graphs.complete(n_tasks=4)
    # Rows near the boundary are left out, so that the bound is not trivial.
    keep = np.abs(truth.scores) / np.linalg.norm(data.X, axis=1) > 0.3
    shifts_at = int(keep[:1000].sum())
    stream = (X[keep], data.y[keep], data.tasks[keep])
    parts = [theory.linear_comparator(range(4), truth.weights(t), graph) for t in (0, 1999)]
    comparator = theory.Shifting([0, shifts_at], parts)
    budget = int(rng.integers(20, 60))
    perceptrons = [
        fitted(RandomBudgetPerceptron(budget, kernels.Linear(), graph, random_state=c), stream)
        for c in range(10)
    ]
    mean = float(np.mean([model.n_mistakes_ for model in perceptrons]))
    guarantee = theory.guarantee(perceptrons[0], stream, comparator, mistakes=mean, scale="best")
    assert guarantee.total_shift > 0 and guarantee.bound is not None and mean <= guarantee.bound
    # Theorem 2 is only for comparators that do not shift.
    of_forgetron = theory.guarantee(fitted(Forgetron(100, kernels.Linear(), graph), stream), stream, comparator)
    assert of_forgetron.bound is None and "this one shifts" in str(of_forgetron)


def test_the_quantities_and_the_best_scale() -> None:
    stream, graph = easy(0), graphs.complete(n_tasks=K)
    model = fitted(Forgetron(budget=400, kernel=kernels.Linear(), graph=graph), stream)
    g = first_axis(graph)
    guarantee = theory.guarantee(model, stream, g)
    assert guarantee.scale == 1.0 and guarantee.c_g == pytest.approx(math.sqrt(2 / (K + 1)))
    assert guarantee.norm == pytest.approx(math.sqrt(K))  # k equal tasks of length 1
    assert guarantee.hinge_loss == pytest.approx(0.4 * 3000)  # every margin is 0.6
    assert guarantee.radius == pytest.approx(theory.forgetron_radius(400, guarantee.c_g))
    best = theory.guarantee(model, stream, g, scale="best")
    assert best.bound is not None
    for scale in np.linspace(0.01, 1.0, 50) * guarantee.radius / guarantee.norm:
        other = theory.guarantee(model, stream, g, scale=float(scale)).bound
        assert other is not None and best.bound <= other * (1 + 1e-6)
    assert set(best.to_dict()) >= {"hinge_loss", "norm", "total_shift", "c_g", "radius", "bound", "mistakes"}


def test_without_a_theorem_the_reason_is_given() -> None:
    stream, graph = easy(1, n=200), graphs.complete(n_tasks=K)
    g = first_axis(graph)
    cases = {
        "only for mtrbp (RandomBudgetPerceptron)": BudgetProjectron(20, kernels.Linear(), graph, eta=0.001),
        "over 83": Forgetron(83, kernels.Linear(), graph),
        "need a budget in examples": RandomBudgetPerceptron(None, kernels.Linear(), graph),
        "K'(x, x) at most 1": Forgetron(100, kernels.Linear(bias=1.0), graph),
    }
    for reason, model in cases.items():
        guarantee = theory.guarantee(fitted(model, stream), stream, replace(g, kernel=model.kernel), scale=0.1)
        assert guarantee.bound is None and guarantee.holds is None and reason in str(guarantee)
    too_long = theory.guarantee(
        fitted(RandomBudgetPerceptron(20, kernels.Linear(), graph), stream), stream, g, scale=9.0
    )
    assert too_long.bound is None and "allows at most" in str(too_long)


def test_the_bound_does_not_depend_on_the_scale_of_the_graph() -> None:
    stream = easy(2, n=500)
    bounds = []
    for graph in (graphs.complete(n_tasks=K), graphs.complete()):  # the paper's scale, and unit diagonal
        model = fitted(RandomBudgetPerceptron(60, kernels.Linear(), graph), stream)
        bounds.append(theory.guarantee(model, stream, first_axis(graph)).bound)
    assert bounds[0] is not None and bounds[0] == pytest.approx(bounds[1])


def test_a_comparator_of_another_space_or_stream_is_rejected() -> None:
    stream, graph = easy(3, n=200), graphs.complete(n_tasks=K)
    model = fitted(Forgetron(100, kernels.Linear(), graph), stream)
    g = first_axis(graph)
    for other in (replace(g, kernel=kernels.Linear(bias=1.0)), replace(g, graph=graphs.disconnected())):
        with pytest.raises(InputError, match="kernel and graph"):
            theory.guarantee(model, stream, other)
    with pytest.raises(InputError, match="200 examples"):
        theory.guarantee(model, tuple(part[:50] for part in stream), g)
