"""Plots of remarks in the paper: the effect of a graph on tasks, on the budget and on the bounds.

graph_effect            how related a graph makes each pair of tasks
budget_over_time        which tasks the stored examples belong to, during a run
longest_by_tasks        equal tasks may have classifiers with large norms, tasks far apart may not
connectedness           c_G from 1, with an isolated task, down to √(2/(k+1)) for the complete graph
isolated_tasks          tasks without edges fill the budget of mtbprj, but not that of mtbprj-2
shift_cost              the cost of a shift of tasks that move alike, and of tasks that move in different directions

Each of these functions draws with matplotlib on `ax`, or on a new figure, and returns the axes. `all_figures` calls
each of them on a fixed example; `budgetron figures` writes the figures to files.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from budgetron import evaluate, graphs
from budgetron.evaluate import Validation
from budgetron.graphs import TaskGraph
from budgetron.kernels import Gaussian, Linear
from budgetron.learners import BudgetProjectron, Forgetron, SharedProjectron
from budgetron.plots import COLOURS, as_svg, axes_for, new_figure, plain_text
from budgetron.theory.bounds import longest
from budgetron.theory.comparator import Shifting, linear_comparator

_WHO = "theory"


def graph_effect(graph: TaskGraph, tasks: Iterable[Any] | None = None, *, ax: Any = None) -> Any:
    """Draw how related the graph makes each pair: (A⁻¹)_ij / √((A⁻¹)_ii (A⁻¹)_jj)."""
    names = list(tasks) if tasks is not None else list(graph.tasks or range(graph.n_tasks or 0))
    values = graphs.relatedness(graph, names)
    ax = axes_for(_WHO, ax)
    ax.pcolormesh(values, cmap="Blues", vmin=0, vmax=1.2)
    ax.invert_yaxis()  # the first task at the top, as in a printed matrix
    ax.set_aspect("equal")
    for (i, j), value in np.ndenumerate(values):
        ax.text(j + 0.5, i + 0.5, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.7 else "black")
    labels = [plain_text(name) for name in names]
    ax.set_xticks(np.arange(len(names)) + 0.5, labels)
    ax.set_yticks(np.arange(len(names)) + 0.5, labels)
    ax.set_title("How related the graph makes each pair", loc="left")
    return ax


def budget_over_time(
    result: Validation, tasks: Sequence[Hashable], title: str = "Share of the budget by task", *, ax: Any = None
) -> Any:
    """Draw the share of the stored examples that each task has, at the end of each window."""
    ax = axes_for(_WHO, ax)
    positions = [point.position for point in result.curve]
    for i, task in enumerate(tasks):
        shares = [100 * point.budget_share.get(task, 0.0) for point in result.curve]
        ax.plot(positions, shares, color=COLOURS[i % len(COLOURS)], label=plain_text(task))
    ax = _with_labels(ax, title, "examples", "stored examples, %")
    ax.legend(title="task", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)  # beside the crossing lines
    return ax


def frequent_tasks(n: int = 6000, seed: int = 0) -> tuple[Validation, list[int]]:
    """Run mtforg over six unrelated tasks, some frequent and some rare; halfway through they swap frequencies."""
    rng = np.random.default_rng(seed)
    frequencies = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    tasks = np.concatenate([rng.choice(6, n // 2, p=frequencies), rng.choice(6, n - n // 2, p=frequencies[::-1])])
    X = rng.standard_normal((n, 6))
    directions = rng.standard_normal((6, 6))
    y = (np.einsum("ij,ij->i", X, directions[tasks]) > 0).astype(int)
    model = Forgetron(budget=100, kernel=Gaussian(gamma=0.1), graph=graphs.disconnected())
    return evaluate.progressive(model, (X, y, tasks), window=n // 60), list(range(6))


def longest_by_tasks(budget: int = 500, most: int = 50, *, ax: Any = None) -> Any:
    """Draw the largest norm ‖g_i‖ per task of a comparator that mtrbp competes with, by the number of tasks."""
    sizes = list(range(2, most + 1))
    equal, apart, alone = [], [], []
    for k in sizes:
        graph, simplex = graphs.complete(n_tasks=k), (np.eye(k) - 1 / k) * k / (k - 1)
        equal.append(longest(np.ones((k, k)), graph, budget))
        apart.append(longest(simplex, graph, budget))
        alone.append(longest(np.ones((k, k)), graphs.disconnected(), budget, tasks=range(k)))
    ax = axes_for(_WHO, ax)
    ax.plot(sizes, equal, color=COLOURS[0], label="equal tasks, complete graph")
    ax.plot(sizes, apart, color=COLOURS[2], label="corners of a simplex, complete graph")
    ax.plot(sizes, alone, "--", color=COLOURS[6], label="equal tasks, no graph")
    return _with_labels(ax, f"Longest comparator for B = {budget}", "tasks", "‖g_i‖")


def connectedness(k: int = 12, *, ax: Any = None) -> Any:
    """Draw c_G while tasks join a clique one by one: 1 while a task is isolated, √(2/(k+1)) at the end."""
    clique_sizes = list(range(1, k + 1))
    values = []
    for size in clique_sizes:
        edges = [(i, j) for i in range(size) for j in range(i)]
        graph = graphs.from_edges(edges, tasks=range(k)) if edges else graphs.disconnected()
        values.append(graph.c_g)
    ax = axes_for(_WHO, ax)
    ax.plot(clique_sizes, values, color=COLOURS[0], label="c_G of all tasks")
    clique = [float(np.sqrt(2 / (size + 1))) for size in clique_sizes]
    ax.plot(clique_sizes, clique, "--", color=COLOURS[2], label="of the clique alone, √(2/(n+1))")
    return _with_labels(ax, "c_G as tasks join a clique", "tasks in the clique", "c_G")


def stored_for_isolated_tasks(n_isolated: int, budget: int = 30, n: int = 3000, seed: int = 0) -> tuple[int, int]:
    """Return how many examples mtbprj and mtbprj-2 store for tasks without edges, whose rows have 3 features."""
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


def isolated_tasks(most: int = 12, *, ax: Any = None) -> Any:
    """Draw the stored examples against the number of tasks without edges, B = 30."""
    sizes = list(range(1, most + 1))
    stored = [stored_for_isolated_tasks(size) for size in sizes]
    ax = axes_for(_WHO, ax)
    ax.plot(sizes, [first for first, _ in stored], color=COLOURS[2], label="mtbprj")
    ax.plot(sizes, [second for _, second in stored], color=COLOURS[0], label="mtbprj-2")
    return _with_labels(ax, "Stored examples of isolated tasks, B = 30", "isolated tasks", "stored")


def shift_between(before: Any, after: Any, graph: TaskGraph) -> float:
    """Return the total shift of tasks 0, 1, … whose weights (k, d) change once, from `before` to `after`."""
    tasks = range(len(before))
    parts = [linear_comparator(tasks, weights, graph) for weights in (before, after)]
    return Shifting([0, 1], parts).total_shift


def shift_cost(most: int = 30, seed: int = 0, *, ax: Any = None) -> Any:
    """Draw c_G·S for the total shift S if every task moves by 1, all alike or each in its own direction.

    The graph is complete. c_G·S is the factor of √B in Theorem 1; c_G itself shrinks with the number of tasks.
    """
    rng = np.random.default_rng(seed)
    sizes = list(range(2, most + 1))
    alike, own = [], []
    for k in sizes:
        start, graph = rng.standard_normal((k, 200)), graphs.complete(n_tasks=k)
        step = rng.standard_normal((k, 200))
        step /= np.linalg.norm(step, axis=1, keepdims=True)
        alike.append(graph.c_g * shift_between(start, start + step[:1], graph))
        own.append(graph.c_g * shift_between(start, start + step, graph))
    ax = axes_for(_WHO, ax)
    ax.plot(sizes, alike, color=COLOURS[0], label="all tasks alike")
    ax.plot(sizes, own, color=COLOURS[2], label="each in its own direction")
    return _with_labels(ax, "The cost of a shift by 1 in every task", "tasks", "c_G·S")


def _with_labels(ax: Any, title: str, x_label: str, y_label: str) -> Any:
    ax.set_title(title, loc="left")
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def all_figures() -> dict[str, str]:
    """Return every figure as SVG, by file name, each on a fixed example."""
    run, tasks = frequent_tasks()
    chain = graphs.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "dan")], tasks=["eve"])
    title = "mtforg's budget; rare and frequent tasks swap half way"
    return {
        "graph-effect.svg": _svg_of(lambda ax: graph_effect(chain, ["ann", "bob", "cid", "dan", "eve"], ax=ax)),
        "budget-over-time.svg": _svg_of(lambda ax: budget_over_time(run, tasks, title, ax=ax)),
        "longest-comparator.svg": _svg_of(lambda ax: longest_by_tasks(ax=ax)),
        "connectedness.svg": _svg_of(lambda ax: connectedness(ax=ax)),
        "isolated-tasks.svg": _svg_of(lambda ax: isolated_tasks(ax=ax)),
        "shift-cost.svg": _svg_of(lambda ax: shift_cost(ax=ax)),
    }


def _svg_of(draw: Any) -> str:
    figure = new_figure(_WHO, 5.2, 3.6)
    draw(figure.subplots())
    return as_svg(figure)
