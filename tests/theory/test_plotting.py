"""The paper's remarks, each tested as a property, and their figures."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import BudgetProjectron, Forgetron, SharedProjectron, evaluate, graphs, kernels, theory
from budgetron.data import synthetic
from budgetron.theory import plotting

K = 8


@st.composite
def weighted_graphs(draw: st.DrawFn) -> graphs.Explicit:
    k = draw(st.integers(2, 9))
    pairs = [(i, j) for i in range(k) for j in range(i)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    weights = [draw(st.floats(0.05, 20.0)) for _ in edges]
    return graphs.from_edges(edges, weights=weights, tasks=range(k))


@given(weighted_graphs())
@settings(deadline=None, max_examples=60)
def test_no_task_is_more_similar_to_a_task_than_itself(graph: graphs.Explicit) -> None:
    similarity = graphs.similarity_matrix(graph)
    for i, row in enumerate(similarity):
        related = [j for j in range(len(row)) if graph.component[j] == graph.component[i] and j != i]
        assert all(row[i] > row[j] > 0 for j in related)
        assert all(row[j] == 0 for j in range(len(row)) if graph.component[j] != graph.component[i])


@given(weighted_graphs())
@settings(deadline=None, max_examples=60)
def test_similarities_follow_from_resistances(graph: graphs.Explicit) -> None:
    k, resistances = graph.n_tasks, graphs.resistance_distances(graph)
    inverse = graphs.similarity_matrix(graph)
    np.testing.assert_allclose(graphs.similarities_from_resistances(resistances), inverse, atol=1e-9)
    # The same resistance from the physics of the network: a current of 1 enters G' at task 0 and leaves at task k − 1,
    # and the resistance is the difference of their potentials. Node k is the dummy node.
    laplacian = np.zeros((k + 1, k + 1))
    laplacian[:k, :k] = np.linalg.inv(inverse)
    laplacian[:k, k] = laplacian[k, :k] = -1.0
    laplacian[k, k] = k
    flow = np.zeros(k + 1)
    flow[0], flow[k - 1] = 1.0, -1.0
    potential = np.linalg.lstsq(laplacian, flow, rcond=None)[0]
    assert resistances[0, k - 1] == pytest.approx(potential[0] - potential[k - 1], abs=1e-7)


@given(weighted_graphs())
@settings(deadline=None, max_examples=60)
def test_c_g_is_1_only_with_isolated_tasks(graph: graphs.Explicit) -> None:
    inverse = graphs.similarity_matrix(graph)
    assert graph.c_g == pytest.approx(math.sqrt(inverse.diagonal().max()))
    if np.bincount(graph.component).min() == 1:
        assert graph.c_g == pytest.approx(1.0)
    else:
        assert graph.c_g < 1.0


@pytest.mark.parametrize("k", [2, 5, 40])
def test_with_unit_weights_the_complete_graph_has_the_least_c_g(k: int) -> None:
    smallest = math.sqrt(2 / (k + 1))
    assert graphs.complete(n_tasks=k).c_g == pytest.approx(smallest)
    rng = np.random.default_rng(k)
    pairs = [(i, j) for i in range(k) for j in range(i)]
    for _ in range(10):
        chosen = [pair for pair in pairs if rng.random() < 0.6] or pairs[:1]
        graph = graphs.from_edges(chosen, tasks=range(k))
        assert smallest <= graph.c_g * (1 + 1e-12) and graph.c_g <= 1 + 1e-12


@pytest.mark.parametrize("k", [2, 3, 10, 100])
@pytest.mark.parametrize("budget", [10, 1000])
def test_equal_tasks_allow_larger_norms_than_a_simplex(k: int, budget: int) -> None:
    graph = graphs.complete(n_tasks=k)
    equal, simplex = np.ones((k, k)), (np.eye(k) - 1 / k) * k / (k - 1)
    longest_equal, longest_apart = (theory.longest(shape, graph, budget) for shape in (equal, simplex))
    assert longest_equal**2 == pytest.approx((k + 1) / k * budget / 8)
    assert longest_apart**2 == pytest.approx(budget / (8 * k))
    longest_without_edges = theory.longest(equal, graphs.disconnected(), budget, tasks=range(k))
    # Independent learners have a budget of B/k each.
    assert longest_without_edges**2 == pytest.approx(budget / (4 * k))
    unrelated = theory.longest(np.eye(k), graph, budget)
    assert longest_apart < unrelated < longest_equal


def test_similarities_are_the_inverse_of_the_interaction_matrix() -> None:
    def inverse(edges: list[tuple[int, int]], k: int) -> np.ndarray:
        laplacian = np.zeros((k, k))
        for i, j in edges:
            laplacian[[i, j], [i, j]] += 1
            laplacian[[i, j], [j, i]] -= 1
        return np.linalg.inv(np.eye(k) + laplacian)

    clique = [(i, j) for i in range(K) for j in range(i)]
    np.testing.assert_allclose(graphs.similarity_matrix(graphs.complete(n_tasks=K)), inverse(clique, K))
    halves = [(i, j) for i, j in clique if i // 4 == j // 4]
    clusters = graphs.similarity_matrix(graphs.clusters({i: i // 4 for i in range(K)}), range(K))
    scale = 2 / (4 + 1)  # an open-ended clique has unit diagonal
    np.testing.assert_allclose(scale * clusters, inverse(halves, K))
    ring = [(i, (i + 1) % 1500) for i in range(1500)]  # large enough to be kept sparse, and solved by columns
    graph = graphs.from_edges(ring)
    assert graph.dense is None
    chosen = [0, 1, 2, 700, 1499]
    np.testing.assert_allclose(
        graphs.similarity_matrix(graph, chosen), inverse(ring, 1500)[np.ix_(chosen, chosen)], atol=1e-10
    )


@pytest.mark.parametrize("n_isolated", [1, 4, 10])
def test_isolated_tasks_fill_the_budget_of_mtbprj_but_not_of_mtbprj_2(n_isolated: int) -> None:
    """Every task's examples span the same 3 dimensions. Only mtbprj (BudgetProjectron) stores a basis for each task."""
    first, second = plotting.stored_for_isolated_tasks(n_isolated, budget=100)
    assert second == 3 and first == 3 * n_isolated
    full, same = plotting.stored_for_isolated_tasks(n_isolated, budget=6)
    assert full == min(6, 3 * n_isolated) and same == 3


def test_a_budget_filled_by_isolated_tasks_costs_mistakes() -> None:
    data, _ = synthetic.stream(4000, d=3, n_tasks=20, relatedness=0.0, seed=1)
    mistakes = {}
    for kind in (BudgetProjectron, SharedProjectron):
        model = kind(budget=10, kernel=kernels.Linear(normalize=True), graph=graphs.disconnected())
        mistakes[kind] = model.fit(data.X, data.y, tasks=data.tasks).n_mistakes_
    assert mistakes[SharedProjectron] < 0.5 * mistakes[BudgetProjectron]


def test_the_forgetron_gives_its_budget_to_the_frequent_tasks() -> None:
    run, tasks = plotting.frequent_tasks()
    halves = [point for point in run.curve if point.position == 3000] + [run.curve[-1]]
    for point, order in zip(halves, (tasks, tasks[::-1]), strict=True):
        shares = [point.budget_share.get(task, 0.0) for task in order]
        # The two most frequent tasks have more than half of the budget, the rarest task less than 5 %.
        assert sum(shares[:2]) > 0.5 > 10 * shares[-1]
    swapped = halves[1].budget_share
    assert swapped.get(0, 0.0) < 0.25 * halves[0].budget_share[0]  # the task that was frequent before is forgotten


def test_a_common_shift_costs_less_than_different_shifts() -> None:
    costs = {}
    for alike in (True, False):
        shift = synthetic.Shift.abrupt(0.5, 60.0, alike=alike)
        _, answer = synthetic.stream(100, d=60, n_tasks=K, relatedness=0.9, shift=shift, seed=2)
        before, after = answer.weights(0), answer.weights(99)
        for graph in (graphs.complete(n_tasks=K), graphs.disconnected()):
            costs[alike, graph] = plotting.shift_between(before, after, graph)
        moved = np.linalg.norm(after - before, axis=1)
        np.testing.assert_allclose(moved, moved[0])  # every task shifts by the same distance in both cases
    together, apart = graphs.complete(n_tasks=K), graphs.disconnected()
    assert costs[True, together] < 0.6 * costs[False, together]
    # Without a graph the direction of the shifts does not matter.
    assert costs[True, apart] == pytest.approx(costs[False, apart], rel=1e-6)


@pytest.fixture(scope="module")
def figures() -> dict[str, str]:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    return plotting.all_figures()


def test_all_figures_are_svg_with_title_and_axes(figures: dict[str, str]) -> None:
    assert len(figures) == 6
    for name, svg in figures.items():
        root = ElementTree.fromstring(svg)
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        assert root.tag.endswith("svg") and len(texts) > 6, name


def test_the_figure_of_a_graph_shows_its_numbers(figures: dict[str, str]) -> None:
    graph = graphs.from_edges(list(pairwise(["ann", "bob", "cid", "dan"])), tasks=["eve"])
    values = graphs.relatedness(graph, ["ann", "bob", "cid", "dan", "eve"])
    for value in np.unique(values.round(2)):
        assert f">{value:.2f}<" in figures["graph-effect.svg"]


def test_the_figure_of_the_budget_shows_the_run() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    model = Forgetron(budget=10, kernel=kernels.Linear())
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 2)), rng.integers(0, 2, 200)
    result = evaluate.progressive(model, (X, y, ["only"] * 200), window=50)
    ax = plotting.budget_over_time(result, ["only"])
    (line,) = ax.lines
    assert set(line.get_ydata()) == {100.0}  # the only task always has the whole budget
