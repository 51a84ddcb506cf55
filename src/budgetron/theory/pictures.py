"""The paper's remarks as pictures (SVG text).

graph_effect            what a graph does to each pair of tasks
budget_over_time        whose examples the budget holds, while a run goes on
longest_by_tasks        equal tasks may have long classifiers, tasks far apart may not
connectedness           c_G from 1, with an isolated task, down to √(2/(k+1)), complete
clogging                isolated tasks fill mtbprj's budget, and not mtbprj-2's
shift_cost              the total shift of tasks that move alike, and each its own way
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from budgetron import evaluate, graphs
from budgetron.charts import COLOURS, Line, Panel, line_chart, matrix_chart
from budgetron.evaluate import Validation
from budgetron.graphs import TaskGraph
from budgetron.kernels import Gaussian, Linear
from budgetron.learners import BudgetProjectron, Forgetron, SharedProjectron
from budgetron.theory.bounds import longest
from budgetron.theory.comparator import Shifting, linear_comparator


def graph_effect(graph: TaskGraph, tasks: Iterable[Any] | None = None) -> str:
    """How related the graph makes each pair: (A⁻¹)_ij over the root of (A⁻¹)_ii (A⁻¹)_jj."""
    names = list(tasks) if tasks is not None else list(graph.tasks or range(graph.n_tasks or 0))
    shares = graphs.relatedness(graph, names)
    return matrix_chart(
        shares.tolist(), [str(name) for name in names], "How related the graph makes each pair"
    )


def budget_over_time(
    result: Validation, tasks: Sequence[Hashable], title: str = "Share of the budget by task"
) -> str:
    """The share of the stored examples that each of the tasks has, at the end of each window."""
    positions = [float(point.position) for point in result.curve]
    lines = [
        Line(
            str(task),
            positions,
            [100 * point.budget_share.get(task, 0.0) for point in result.curve],
            COLOURS[place % len(COLOURS)],
            dashed=place >= len(COLOURS),
        )
        for place, task in enumerate(tasks)
    ]
    return line_chart([Panel(title, lines, _ends(positions), "examples", "%")], title)


def frequent_tasks(n: int = 6000, seed: int = 0) -> tuple[Validation, list[int]]:
    """A run of mtforg over six unrelated tasks, some frequent, some rare; at half time they swap roles."""
    rng = np.random.default_rng(seed)
    often = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    tasks = np.concatenate([rng.choice(6, n // 2, p=often), rng.choice(6, n - n // 2, p=often[::-1])])
    X = rng.standard_normal((n, 6))
    directions = rng.standard_normal((6, 6))
    y = (np.einsum("ij,ij->i", X, directions[tasks]) > 0).astype(int)
    model = Forgetron(budget=100, kernel=Gaussian(gamma=0.1), graph=graphs.disconnected())
    return evaluate.progressive(model, (X, y, tasks), window=n // 60), list(range(6))


def longest_by_tasks(budget: int = 500, most: int = 50) -> str:
    """The longest classifiers a budget competes with on the complete graph, by the number of tasks."""
    sizes = list(range(2, most + 1))
    equal, apart, alone = [], [], []
    for k in sizes:
        graph, simplex = graphs.complete(n_tasks=k), (np.eye(k) - 1 / k) * k / (k - 1)
        equal.append(longest(np.ones((k, k)), graph, budget))
        apart.append(longest(simplex, graph, budget))
        alone.append(longest(np.ones((k, k)), graphs.disconnected(), budget, tasks=range(k)))
    lines = [
        Line("equal tasks, complete graph", sizes, equal, COLOURS[0]),
        Line("corners of a simplex, complete graph", sizes, apart, COLOURS[2]),
        Line("equal tasks, no graph", sizes, alone, COLOURS[6], dashed=True),
    ]
    title = f"Longest comparator for B = {budget}"
    return line_chart([Panel(title, lines, _ends(sizes), "tasks", "‖g_i‖")], title)


def connectedness(k: int = 12) -> str:
    """c_G while tasks join a clique one by one: 1 as long as one is alone, √(2/(k+1)) at the end."""
    joined = list(range(1, k + 1))
    values = []
    for size in joined:
        edges = [(i, j) for i in range(size) for j in range(i)]
        graph = graphs.from_edges(edges, tasks=range(k)) if edges else graphs.disconnected()
        values.append(graph.c_g)
    alone = [float(np.sqrt(2 / (size + 1))) for size in joined]
    lines = [
        Line("c_G of all tasks", joined, values, COLOURS[0]),
        Line("of the clique alone, √(2/(n+1))", joined, alone, COLOURS[2], dashed=True),
    ]
    title = "c_G as tasks join a clique"
    return line_chart([Panel(title, lines, _ends(joined), "tasks in the clique", "c_G")], title)


def clogged(n_isolated: int, budget: int = 30, n: int = 3000, seed: int = 0) -> tuple[int, int]:
    """How many examples mtbprj and mtbprj-2 store for tasks with no edge in one 3-dimensional space."""
    rng = np.random.default_rng(seed)
    tasks = rng.integers(0, n_isolated, size=n)
    X = rng.standard_normal((n, 3))
    y = (np.einsum("ij,ij->i", X, rng.standard_normal((n_isolated, 3))[tasks]) > 0).astype(int)
    settings: dict[str, Any] = {
        "budget": budget,
        "kernel": Linear(normalize=True),
        "graph": graphs.disconnected(),
    }
    first, second = (learner(**settings) for learner in (BudgetProjectron, SharedProjectron))
    return first.fit(X, y, tasks=tasks).n_stored_, second.fit(X, y, tasks=tasks).n_stored_


def clogging(most: int = 12) -> str:
    """Examples stored against the number of isolated tasks, B = 30."""
    sizes = list(range(1, most + 1))
    stored = [clogged(size) for size in sizes]
    lines = [
        Line("mtbprj", sizes, [first for first, _ in stored], COLOURS[2]),
        Line("mtbprj-2", sizes, [second for _, second in stored], COLOURS[0]),
    ]
    title = "Stored examples of isolated tasks, B = 30"
    return line_chart([Panel(title, lines, _ends(sizes), "isolated tasks", "stored")], title)


def shift_between(before: Any, after: Any, graph: TaskGraph) -> float:
    """The total shift of tasks 0, 1, … whose weights (k, d) change once."""
    tasks = range(len(before))
    parts = [linear_comparator(tasks, weights, graph) for weights in (before, after)]
    return Shifting([0, 1], parts).total_shift


def shift_cost(most: int = 30, seed: int = 0) -> str:
    """The total shift when every task moves by 1, alike and each its own way, on the complete graph."""
    rng = np.random.default_rng(seed)
    sizes = list(range(2, most + 1))
    alike, own = [], []
    for k in sizes:
        start, graph = rng.standard_normal((k, 200)), graphs.complete(n_tasks=k)
        step = rng.standard_normal((k, 200))
        step /= np.linalg.norm(step, axis=1, keepdims=True)
        # c_G S is what the bound of Theorem 1 counts: on the complete graph c_G itself shrinks with k
        alike.append(graph.c_g * shift_between(start, start + step[:1], graph))
        own.append(graph.c_g * shift_between(start, start + step, graph))
    lines = [
        Line("all tasks alike", sizes, alike, COLOURS[0]),
        Line("each its own way", sizes, own, COLOURS[2]),
    ]
    title = "The cost of a shift by 1 in every task"
    return line_chart([Panel(title, lines, _ends(sizes), "tasks", "c_G·S")], title)


def _ends(places: Sequence[float]) -> list[tuple[float, str]]:
    first, last = places[0], places[-1]
    middle = places[len(places) // 2]
    return [(float(place), f"{place:,.0f}") for place in (first, middle, last)]


def all_pictures() -> dict[str, str]:
    """Every picture by file name, each on a fixed example."""
    run, tasks = frequent_tasks()
    chain = graphs.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "dan")], tasks=["eve"])
    return {
        "graph-effect.svg": graph_effect(chain, ["ann", "bob", "cid", "dan", "eve"]),
        "budget-over-time.svg": budget_over_time(
            run, tasks, "mtforg's budget; rare and frequent swap at half"
        ),
        "longest-comparator.svg": longest_by_tasks(),
        "connectedness.svg": connectedness(),
        "clogging.svg": clogging(),
        "shift-cost.svg": shift_cost(),
    }
