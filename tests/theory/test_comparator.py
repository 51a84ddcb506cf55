"""Norms, margins and shifts of comparators, each compared with another way to compute it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from budgetron import BudgetProjectron, Forgetron, SharedProjectron, graphs, kernels, theory
from budgetron.data import synthetic
from budgetron.theory.comparator import kernel_matrix

EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
GRAPH = graphs.from_edges(EDGES, weights=[1.0, 2.0, 0.5, 3.0], tasks=["e"])
KERNEL = kernels.Gaussian(gamma=0.3)


def table(seed: int, tasks: tuple[str, ...] = tuple("abcde"), rows: int = 7) -> theory.Comparator:
    rng = np.random.default_rng(seed)
    examples, weights = rng.standard_normal((rows, 3)), rng.standard_normal((len(tasks), rows))
    return theory.Comparator(tasks, examples, weights, KERNEL, GRAPH)


@pytest.mark.parametrize("seed", range(5))
def test_the_norm_is_the_papers_sum_over_tasks_and_edges(seed: int) -> None:
    g = table(seed)
    gram = KERNEL(g.rows, g.rows)

    def squared(w: np.ndarray) -> float:
        return float(w @ gram @ w)

    own = dict(zip(g.tasks, g.weights, strict=True))
    expected = sum(squared(w) for w in own.values())
    for (i, j), weight in zip(EDGES, [1.0, 2.0, 0.5, 3.0], strict=True):
        expected += weight * squared(own[i] - own[j])
    assert g.largest_norm == pytest.approx(math.sqrt(expected), rel=1e-9)


def test_the_norm_of_a_learner_is_that_of_its_expansion() -> None:
    data, _ = synthetic.stream(400, d=4, graph=GRAPH, seed=2)
    model = Forgetron(budget=25, kernel=KERNEL, graph=GRAPH).fit(data.X, data.y, tasks=data.tasks)
    active = model.active_set_
    similarity = graphs.similarity_matrix(GRAPH, active.task)  # one row per stored example, so tasks repeat
    gram = similarity * KERNEL(active.rows, active.rows)
    expected = math.sqrt(active.coef @ gram @ active.coef)
    assert theory.model_comparator(model, "abcde").largest_norm == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kind", [Forgetron, BudgetProjectron, SharedProjectron])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_model_as_comparator_predicts_as_the_model(kind: type, as_sparse: bool) -> None:
    data, _ = synthetic.stream(300, d=5, graph=GRAPH, seed=4)
    X = sparse.csr_matrix(data.X) if as_sparse else data.X
    model = kind(budget=20, kernel=KERNEL, graph=GRAPH).fit(X, data.y, tasks=data.tasks)
    g = theory.model_comparator(model, data.tasks)
    np.testing.assert_allclose(g.margins(X, data.tasks), model.decision_function(X, tasks=data.tasks), atol=1e-9)
    np.testing.assert_allclose(g.scaled(-2.0).margins(X, data.tasks), -2 * g.margins(X, data.tasks))


def test_tasks_that_are_not_named_do_not_increase_the_norm() -> None:
    partial = table(0, tasks=("a", "b", "d"))
    rng = np.random.default_rng(1)

    def completed(c: np.ndarray, e: np.ndarray) -> float:
        weights = np.array([partial.weights[0], partial.weights[1], c, partial.weights[2], e])
        return theory.Comparator(tuple("abcde"), partial.rows, weights, KERNEL, GRAPH).largest_norm

    # The gradient of the squared norm with respect to c is 0 here. Task e is isolated, so its best weights are 0.
    best_c = (0.5 * partial.weights[0] + 2.0 * partial.weights[1] + 3.0 * partial.weights[2]) / (
        1 + 0.5 + 2.0 + 3.0
    )
    assert partial.largest_norm == pytest.approx(completed(best_c, np.zeros(7)), rel=1e-9)
    for _ in range(20):
        other = completed(best_c + 0.1 * rng.standard_normal(7), 0.1 * rng.standard_normal(7))
        assert other > partial.largest_norm


def test_a_pooled_graph_allows_no_difference_between_tasks() -> None:
    pooled = graphs.complete(coupling=math.inf)
    same = theory.linear_comparator("ab", [[1.0, 2.0], [1.0, 2.0]], pooled)
    assert same.largest_norm == pytest.approx(math.sqrt(5))
    assert theory.linear_comparator("ab", [[1.0, 2.0], [1.0, 2.1]], pooled).largest_norm == math.inf


def test_a_linear_comparator_is_its_weights() -> None:
    rng = np.random.default_rng(5)
    weights, X, tasks = rng.standard_normal((3, 4)), rng.standard_normal((60, 4)), rng.integers(0, 3, 60)
    g = theory.linear_comparator(range(3), weights, graphs.complete(n_tasks=3))
    np.testing.assert_allclose(g.margins(X, tasks), (X * weights[tasks]).sum(axis=1))


def test_shifting_adds_up_the_steps_and_switches_at_its_positions() -> None:
    parts = [table(seed) for seed in range(3)]
    g = theory.Shifting([0, 10, 25], parts)
    rng = np.random.default_rng(6)
    X, tasks = rng.standard_normal((40, 3)), rng.choice(list("abcde"), 40)
    pieces = [parts[0].margins(X[:10], tasks[:10]), parts[1].margins(X[10:25], tasks[10:25])]
    np.testing.assert_allclose(
        g.margins(X, tasks), np.concatenate([*pieces, parts[2].margins(X[25:], tasks[25:])])
    )
    assert g.largest_norm == max(part.largest_norm for part in parts)

    def distance(first: theory.Comparator, second: theory.Comparator) -> float:
        """Return ‖first − second‖, computed from the weights over the examples of both."""
        weights = np.hstack([first.weights, -second.weights])
        rows = np.vstack([first.rows, second.rows])
        A = np.linalg.inv(graphs.similarity_matrix(GRAPH))
        indices = [GRAPH.tasks.index(task) for task in first.tasks]
        products = weights @ kernel_matrix(KERNEL, rows, rows) @ weights.T
        return float(np.sqrt(np.sum(products * A[np.ix_(indices, indices)])))

    assert g.total_shift == pytest.approx(distance(parts[0], parts[1]) + distance(parts[1], parts[2]))
    assert theory.Shifting([0, 5], [parts[0], parts[0]]).total_shift == pytest.approx(0.0, abs=1e-6)
    assert g.scaled(3.0).total_shift == pytest.approx(3 * g.total_shift)
    # The stream may end before the last part begins.
    margins = theory.Shifting([0, 10, 25], parts).margins(X[:12], tasks[:12])
    np.testing.assert_allclose(margins, np.concatenate(pieces)[:12])


def test_invalid_comparators_and_shifts_are_refused() -> None:
    g = table(0)
    with pytest.raises(ValueError, match="weights must be of shape"):
        theory.Comparator(("a",), g.rows, g.weights, KERNEL, GRAPH)
    with pytest.raises(ValueError, match="must be tasks of the comparator; got 'z'"):
        g.margins(g.rows[:1], ["z"])
    with pytest.raises(ValueError, match="beginning with 0"):
        theory.Shifting([1], [g])
    with pytest.raises(ValueError, match="increasing"):
        theory.Shifting([0, 5, 5], [g, g, g])
    with pytest.raises(TypeError, match="comparator must be a Comparator or a Shifting; got None"):
        theory.guarantee(None, None, None)
    for scale, shown in ((-1, "-1"), (None, "None"), ("worst", "'worst'"), ([1.0], r"\[1.0\]"), (math.nan, "nan")):
        with pytest.raises(ValueError, match=f'scale must be a number above 0, or "best"; got {shown}'):
            theory.guarantee(None, None, g, scale=scale)  # type: ignore[arg-type]
