"""The section about relations between tasks: those that the graph assumes, and those that the model has learned.

Only the tasks with the most examples are shown, so that the page stays readable for ten thousand tasks.

In the formulas, A = I + L, where L is the Laplacian of the task graph. The entry (A⁻¹)_ij is the similarity of tasks i
and j that the graph assumes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import InputError
from budgetron.evaluate import Validation
from budgetron.graphs import Explicit, TaskGraph
from budgetron.report.page import as_count, escape, name_of
from budgetron.report.parts import Section, figure, paragraph, table
from budgetron.report.sections.graph_drawing import draw_graph

MAX_TASKS = 24  # more rows of a matrix do not fit on a screen
_PROBES = 200  # the tasks' margins are compared on at most this many stored examples
_MAX_WITH_NUMBERS = 12  # with more tasks, a matrix shows only shades and no numbers

Floats = NDArray[np.float64]


def relations(validation: Validation, model: Any) -> Section | None:
    """Return the section: the graph, its similarities, and the correlations between the tasks' margins."""
    graph = getattr(model, "graph", None)
    if not isinstance(graph, TaskGraph) or len(validation.per_task) < 2:
        return None
    largest = sorted(validation.per_task, key=lambda task: -validation.per_task[task].n)[:MAX_TASKS]
    # Put connected tasks side by side, so that fewer lines of the drawing cross and the matrices show blocks.
    chosen = [task for component in graph.components(largest) for task in component]
    names = [name_of(task) for task in chosen]
    similarity = _similarities(graph, chosen)
    learned, correlations = _learned_similarities(model, chosen), None
    # With a complete graph, a Budgetron learns how related the tasks are: there is no assumption to draw.
    assumed = learned is None or isinstance(graph, Explicit) or len(graph.components(chosen)) > 1
    parts = _assumptions(validation, graph, chosen, names, similarity) if assumed else []
    if learned is not None:
        # The learned matrix has its own order, because the components of the graph say nothing about it.
        order = order_by_similarity(learned)
        learned, ordered_names = learned[np.ix_(order, order)], [names[i] for i in order]
        caption = (
            "The similarity of the functions that the model has learned for the tasks: 1 means the same, 0 "
            "unrelated, −1 opposite decisions. Tasks with a value far from 0 help each other. Similar tasks are side "
            "by side; columns have the order of the rows."
        )
        matrix = _matrix(learned, ordered_names, caption)
        parts.append(figure("Which tasks are alike", matrix, caption, _pair_table(ordered_names, learned)))
    else:
        correlations = _margin_correlations(model, chosen)
    if correlations is not None:
        caption = (
            "The correlation between the tasks' margins (signed decision values) on the stored examples. 1 means the "
            "same decisions, 0 no relation, and below 0 opposite decisions. Columns have the order of the rows."
        )
        matrix = _matrix(correlations, names, caption)
        parts.append(figure("Learned relations", matrix, caption, _pair_table(names, correlations)))
    text = paragraph(_graph_sentences(graph, validation, len(chosen)))
    if hasattr(model, "shards"):
        parts_of_model = "replicas" if hasattr(model, "replicas") else "shards"
        text += paragraph(f"Learned relations are not shown, because the model is in {parts_of_model}.", "note")
    return Section("relations", "How tasks are related", f'{text}<div class="pair">{"".join(parts)}</div>')


def _graph_sentences(graph: TaskGraph, validation: Validation, shown: int) -> str:
    """Describe the graph in a few sentences."""
    text = f"The graph is {graph!r}."
    parts = len(graph.components(list(validation.per_task)))
    if parts > 1:
        text += f" The tasks are in {as_count(parts)} components of it."
    elif validation.others is None:
        text += " It connects all tasks."
    if shown < len(validation.per_task) or validation.others is not None:
        counted = "" if validation.others is None else f" of the first {as_count(len(validation.per_task))}"
        text += f" The {shown} tasks with the most examples{counted} are shown."
    return text


def _assumptions(
    validation: Validation, graph: TaskGraph, chosen: list[Hashable], names: list[str], similarity: Floats
) -> list[str]:
    """Return the graph as a drawing and, unless all similarities are equal, as a matrix."""
    edges = _edges(graph, chosen, similarity)
    largest = max(validation.per_task[task].n for task in chosen)
    sizes = [validation.per_task[task].n / largest for task in chosen]
    others = similarity[~np.eye(len(names), dtype=bool)]
    all_equal = float(others.max() - others.min()) < 1e-9
    caption = "Larger discs are tasks with more examples."
    if all_equal:
        caption += f" The similarity between any two tasks is {others[0]:.2f}; that of a task with itself is 1."
    else:
        caption += " Thicker lines are heavier edges."
    parts = [figure("The graph", draw_graph(names, edges, sizes, caption), caption)]
    if not all_equal:
        caption = (
            "The similarity between tasks that the graph assumes; that of a task with itself is 1. "
            "Columns have the order of the rows."
        )
        matrix = _matrix(similarity, names, caption)
        parts.append(figure("Assumed similarity", matrix, caption, _pair_table(names, similarity)))
    return parts


def _matrix(values: Floats, names: list[str], caption: str) -> str:
    """Return a square table of values from −1 to 1, shaded by value.

    The content security policy of the page allows no inline styles, so each shade is a CSS class.
    """
    shades_only = len(names) > _MAX_WITH_NUMBERS  # then only shades fit, and the values are in the tooltips
    rows = []
    for name, row in zip(names, values.tolist(), strict=True):
        cells = []
        for other, value in zip(names, row, strict=True):
            # The style sheet has five shades for each sign.
            shade = round(5 * min(abs(value), 1.0))
            kind = f' class="{"plus" if value > 0 else "minus"}{shade}"' if shade else ""
            text = "" if shades_only else f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")
            cells.append(f'<td{kind} title="{escape(f"{name} and {other}: {value:.2f}")}">{text}</td>')
        rows.append(f'<tr><th scope="row"><bdi>{escape(name_of(name, 16))}</bdi></th>{"".join(cells)}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f'<table class="heat{" narrow" if shades_only else ""}"><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _similarities(graph: TaskGraph, chosen: list[Hashable]) -> Floats:
    """Return A⁻¹ among the chosen tasks, scaled to a unit diagonal."""
    task_ids, clusters = graph.locate(chosen)
    rows = np.array(
        [
            graph.row(int(task_id), int(cluster), task_ids, clusters)
            for task_id, cluster in zip(task_ids, clusters, strict=True)
        ]
    )
    # The limit avoids a division by 0 if a given matrix has a 0 on its diagonal.
    scale = np.sqrt(np.maximum(rows.diagonal(), 1e-300))
    scaled: Floats = rows / np.outer(scale, scale)
    return scaled


def _edges(graph: TaskGraph, chosen: list[Hashable], similarity: Floats) -> list[tuple[int, int, float]]:
    """Return the edges of the graph, heaviest first; the pairs of similar tasks if the graph is not given by edges."""
    weights = similarity
    if isinstance(graph, Explicit):
        edge_weights = _edge_weights(graph, graph.locate(chosen)[0])
        weights = similarity if edge_weights is None else edge_weights
    pairs = [(i, j, float(weights[i, j])) for i in range(len(weights)) for j in range(i) if weights[i, j] > 1e-9]
    return sorted(pairs, key=lambda pair: -pair[2])


def _edge_weights(graph: Explicit, task_ids: NDArray[np.int64]) -> Floats | None:
    """Return the weights of the edges: −A off the diagonal. None if A⁻¹ was given and has no inverse."""
    if graph.matrix is not None:
        weights: Floats = -graph.matrix[task_ids][:, task_ids].toarray()
        return weights
    try:
        inverse = np.linalg.inv(np.asarray(graph.dense))
    except np.linalg.LinAlgError:
        return None
    # A nearly singular A⁻¹ has a meaningless inverse.
    return -inverse[np.ix_(task_ids, task_ids)] if np.abs(inverse).max() < 1e9 else None


def _learned_similarities(model: Any, chosen: list[Hashable]) -> Floats | None:
    """Return the similarity of the tasks' functions, from −1 to 1; None for a model that cannot compute it."""
    if not hasattr(model, "task_similarity"):
        return None
    try:
        learned: Floats = model.task_similarity(chosen)
    except InputError:  # sparse rows, or the task is a column
        return None
    return learned


def order_by_similarity(values: Floats) -> list[int]:
    """Return an order in which similar tasks are neighbours: after each task comes the most similar remaining one."""
    order, remaining = [0], set(range(1, len(values)))
    while remaining:
        last = order[-1]
        order.append(max(remaining, key=lambda i: (values[last, i], -i)))
        remaining.remove(order[-1])
    return order


def _margin_correlations(model: Any, chosen: list[Hashable]) -> Floats | None:
    """Return the correlations between the tasks' margins on the same stored examples.

    None if fewer than three examples are stored, or if the task is a column of the rows.
    """
    rows = getattr(getattr(model, "active_set_", None), "rows", None)
    if rows is None or rows.shape[0] < 3 or getattr(model, "task_column", None) is not None:
        return None
    # Each row is predicted once for every task, so that the margins of the tasks can be compared.
    rows = rows[:_PROBES]
    margins = np.array([np.ravel(model.decision_function(rows, tasks=[task] * rows.shape[0])) for task in chosen])
    centred = margins - margins.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1))
    norms[norms < 1e-12] = np.inf  # the correlation with a constant margin is undefined; 0 is shown
    correlation: Floats = (centred @ centred.T) / np.outer(norms, norms)
    return correlation


def _pair_table(names: list[str], values: Floats) -> str:
    """Return a table of the most and the least similar pairs."""
    pairs = [(float(values[i, j]), names[i], names[j]) for i in range(len(names)) for j in range(i)]
    pairs.sort(key=lambda pair: -pair[0])
    listed = pairs if len(pairs) <= 12 else pairs[:6] + pairs[-6:]
    rows = [(f"{first} and {second}", f"{value:.2f}") for value, first, second in listed]
    return table(("Tasks", "Similarity"), rows, caption="The most and the least similar pairs")
