"""The mistake bounds of multitask Perceptrons and of the Forgetron with a fixed shrink hold on random streams."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from budgetron import LinearPerceptron, Perceptron, SecondOrderPerceptron, ShiftingPerceptron, graphs, kernels, theory

K, D, N = 4, 6, 250
STREAMS = range(8)


def draw_stream(seed, shifts=0):
    """Return rows of unit length, similar tasks, noisy labels, true weights per segment, and the segment of each row.

    The stream has `shifts` + 1 segments. From one segment to the next, the weights of all tasks change.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    tasks = rng.integers(K, size=N)
    common, own = rng.normal(size=D), rng.uniform(0, 1) * rng.normal(size=(K, D))
    segments = [common + own]
    for _ in range(shifts):
        segments.append(segments[-1] + 0.7 * rng.normal(size=D))
    segment = np.arange(N) * len(segments) // N
    scores = np.einsum("nd,nd->n", X, np.array(segments)[segment, tasks])
    y = np.where(scores + rng.choice([0.0, 0.3]) * rng.normal(size=N) > 0, 1, -1)
    return X, tasks, y, segments, segment


def hinge(y, values):
    return float(np.maximum(0.0, 1.0 - y * values).sum())


@pytest.mark.parametrize("seed", STREAMS)
@pytest.mark.parametrize("graph", [graphs.complete(n_tasks=K), graphs.complete(), graphs.disconnected()], ids=repr)
def test_the_bound_of_the_perceptron_holds(seed, graph):
    X, tasks, y, segments, _ = draw_stream(seed)
    models = Perceptron(kernel=kernels.Linear(), graph=graph), LinearPerceptron(graph=graph)
    n_mistakes, linear_n_mistakes = (model.fit(X, y, tasks=tasks).n_mistakes_ for model in models)
    assert n_mistakes == linear_n_mistakes
    for scale in (0.5, 2.0, 8.0):
        comparator = theory.linear_comparator(range(K), scale * segments[0], graph)
        loss = hinge(y, comparator.margins(X, tasks))
        assert n_mistakes <= theory.perceptron_bound(loss, comparator.largest_norm, graph.c_g)


@pytest.mark.parametrize("seed", STREAMS)
def test_the_bound_of_the_p_norm_perceptron_holds(seed):
    X, tasks, *_ = draw_stream(seed)
    X = np.sign(X)  # the largest entry is 1, and the label depends on one column
    weights = np.zeros((K, D))
    weights[:, 0] = 1.0
    y = np.where(np.random.default_rng(seed).random(N) < 0.05, -X[:, 0], X[:, 0])
    model = LinearPerceptron(norm="auto", graph=graphs.complete(n_tasks=K)).fit(X, y, tasks=tasks)
    assert model.n_mistakes_ <= theory.p_norm_bound(hinge(y, X @ weights[0]), weights, 1.0)


@pytest.mark.parametrize("seed", STREAMS)
def test_the_bound_of_the_second_order_perceptron_holds(seed):
    X, tasks, y, segments, _ = draw_stream(seed)
    graph = graphs.complete(n_tasks=K)
    model = SecondOrderPerceptron(budget=None, kernel=kernels.Linear(), graph=graph)
    margins = model.predict_then_learn(X, y, tasks=tasks)
    wrong = y * margins <= 0
    A = np.array([[graph.similarity(i, j) for j in range(K)] for i in range(K)])
    gram = A[np.ix_(tasks[wrong], tasks[wrong])] * (X[wrong] @ X[wrong].T)
    for scale in (0.5, 2.0, 8.0):
        comparator = theory.linear_comparator(range(K), scale * segments[0], graph)
        values = comparator.margins(X, tasks)
        # The bound uses only the loss on the mistakes. With the loss on all examples it would be weaker.
        bound = theory.second_order_bound(hinge(y[wrong], values[wrong]), comparator.largest_norm, values[wrong],
                                          np.linalg.eigvalsh(gram))  # fmt: skip
        assert model.n_mistakes_ <= bound


@pytest.mark.parametrize("seed", STREAMS)
@pytest.mark.parametrize("budget", [30, 150])
def test_the_bound_of_the_fixed_shrink_forgetron_holds(seed, budget):
    X, tasks, y, segments, segment = draw_stream(seed, shifts=seed % 4)
    graph = graphs.complete(n_tasks=K)
    model = ShiftingPerceptron(budget=budget, kernel=kernels.Linear(), graph=graph).fit(X, y, tasks=tasks)
    largest_norm = max(theory.linear_comparator(range(K), weights, graph).largest_norm for weights in segments)
    radius = theory.fixed_shrink_bound(0.0, 0.0, 0.0, graph.c_g, budget).radius
    n_finite = 0
    for share in (0.05, 0.3, 0.6, 0.9):
        scaled = [share * radius / largest_norm * weights for weights in segments]
        comparators = [theory.linear_comparator(range(K), weights, graph) for weights in scaled]
        shift = sum(theory.linear_comparator(range(K), b - a, graph).largest_norm
                    for a, b in pairwise(scaled))  # fmt: skip
        loss = hinge(y, np.einsum("nd,nd->n", X, np.array(scaled)[segment, tasks]))
        bound = theory.fixed_shrink_bound(loss, max(g.largest_norm for g in comparators), shift, graph.c_g, budget)
        n_finite += math.isfinite(bound.mistakes)
        assert model.n_mistakes_ <= bound.mistakes
    assert n_finite == 4


def test_the_bound_of_the_fixed_shrink_forgetron_is_finite_for_a_zero_comparator():
    # The comparator 0 does not shift, and its hinge loss is 1 per example, so the bound is the number of examples.
    bound = theory.fixed_shrink_bound(N, 0.0, 0.0, 0.5, 30)
    assert bound.mistakes == N
    # It is the limit of the bounds of shorter and shorter comparators.
    for shift in (0.0, 2.0):
        at_zero, nearby = (theory.fixed_shrink_bound(N, norm, shift, 0.5, 30).mistakes for norm in (0.0, 1e-9))
        assert at_zero == pytest.approx(nearby, rel=1e-6)
    assert theory.fixed_shrink_bound(N, bound.radius, 0.0, 0.5, 30).mistakes == math.inf


def test_guarantee_of_a_zero_comparator_is_the_number_of_examples():
    X, tasks, y, segments, _ = draw_stream(3)
    graph = graphs.complete(n_tasks=K)
    model = ShiftingPerceptron(budget=200, kernel=kernels.Linear(), graph=graph).fit(X, y, tasks=tasks)
    zero = theory.linear_comparator(range(K), 0 * segments[0], graph)
    guarantee = theory.guarantee(model, (X, y, tasks), zero)
    assert guarantee.holds and guarantee.bound == N and guarantee.reason == ""


def test_guarantee_of_a_fixed_shrink():
    X, tasks, y, segments, _ = draw_stream(3)
    graph = graphs.complete(n_tasks=K)
    model = ShiftingPerceptron(budget=200, kernel=kernels.Linear(), graph=graph).fit(X, y, tasks=tasks)
    comparator = theory.linear_comparator(range(K), segments[0], graph)
    guarantee = theory.guarantee(model, (X, y, tasks), comparator, scale="best")
    assert guarantee.holds and guarantee.theorem is None and guarantee.bound < N
    polynomial = ShiftingPerceptron.preset("shifting-perceptron", kernel=kernels.Linear(), graph=graph)
    other = theory.guarantee(polynomial.fit(X, y, tasks=tasks), (X, y, tasks), comparator)
    assert other.bound is None
