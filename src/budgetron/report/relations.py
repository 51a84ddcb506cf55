"""How tasks are related: by the graph that was given, and by what was learned.

The graph says what was assumed; how alike the tasks decide is what came of it. Both are shown for the tasks with the
most examples, so that the page is as readable for ten thousand tasks as for two.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate import Validation
from budgetron.graphs import Explicit, TaskGraph
from budgetron.report.layout import placed
from budgetron.report.page import as_count, name_of
from budgetron.report.parts import Section, paragraph, picture, table
from budgetron.report.pictures import matrix, network

MOST_TASKS = 24
_PROBES = 200  # stored examples on which tasks are compared
_EDGES = 400

Floats = NDArray[np.float64]


def relations(validation: Validation, model: Any) -> Section | None:
    """The graph as a picture and as similarities, and how alike the tasks decide."""
    graph = getattr(model, "graph", None)
    if not isinstance(graph, TaskGraph) or len(validation.per_task) < 2:
        return None
    chosen = sorted(validation.per_task, key=lambda task: -validation.per_task[task].n)[:MOST_TASKS]
    names = [name_of(task) for task in chosen]
    similarity = _similarities(graph, chosen)
    parts = _assumptions(validation, graph, chosen, names, similarity)
    likeness = _likeness(model, chosen)
    if likeness is not None:
        says = (
            "How alike the tasks decide, on the examples that are stored: the correlation of their margins. 1 is the "
            "same decisions, 0 is no relation; below 0, in the other colour, they contradict each other. "
            "Columns are in the order of the rows."
        )
        parts.append(picture("What was learned", matrix(likeness, names, says), says, _pairs(names, likeness)))
    text = paragraph(_assumed(graph, validation, len(chosen)))
    if hasattr(model, "shards"):
        text += paragraph("How alike the tasks decide is not pictured: what is stored is in several shards.", "note")
    return Section("relations", "How tasks are related", f'{text}<div class="pair">{"".join(parts)}</div>')


def _assumed(graph: TaskGraph, validation: Validation, shown: int) -> str:
    text = f"The graph is {graph!r}."
    parts = len(graph.components(list(validation.per_task)))
    text += f" The tasks are in {as_count(parts)} separate parts of it." if parts > 1 else " It joins all the tasks."
    if shown < len(validation.per_task) or validation.others is not None:
        text += f" Pictured are the {shown} tasks with the most examples."
    return text


def _assumptions(
    validation: Validation, graph: TaskGraph, chosen: list[Hashable], names: list[str], similarity: Floats
) -> list[str]:
    """The graph as a picture; and as a matrix, unless that would be the same number everywhere."""
    edges = _edges(graph, chosen, similarity)
    largest = max(validation.per_task[task].n for task in chosen)
    sizes = [validation.per_task[task].n / largest for task in chosen]
    others = similarity[~np.eye(len(names), dtype=bool)]
    alike = float(others.max() - others.min()) < 1e-9
    says = "A larger disc has more examples."
    if alike:
        says += f" The similarity of any two tasks is {others[0]:.2f}, where that of a task with itself is 1."
    else:
        says += " A thicker line is a heavier edge."
    if len(edges) == _EDGES:
        says += f" Only the {_EDGES} heaviest edges are drawn."
    figures = [picture("The graph", network(names, placed(len(names), edges), edges, sizes, says), says)]
    if not alike:
        says = (
            "Similarity of the tasks as the graph has it, where that of a task with itself is 1. "
            "Columns are in the order of the rows."
        )
        figures.append(picture("Similarity", matrix(similarity, names, says), says, _pairs(names, similarity)))
    return figures


def _similarities(graph: TaskGraph, chosen: list[Hashable]) -> Floats:
    """A⁻¹ among the chosen tasks, scaled to a unit diagonal."""
    keys, clusters = graph.locate(chosen)
    rows = np.array(
        [graph.row(int(key), int(cluster), keys, clusters) for key, cluster in zip(keys, clusters, strict=True)]
    )
    scale = np.sqrt(np.maximum(rows.diagonal(), 1e-300))
    scaled: Floats = rows / np.outer(scale, scale)
    return scaled


def _edges(graph: TaskGraph, chosen: list[Hashable], similarity: Floats) -> list[tuple[int, int, float]]:
    """The pairs that the graph joins, the heaviest first; where it has no edges to speak of, those it makes similar."""
    weights = similarity
    if isinstance(graph, Explicit):
        keys = graph.locate(chosen)[0]
        joined = _joined(graph, keys)
        weights = similarity if joined is None else joined
    pairs = [(i, j, float(weights[i, j])) for i in range(len(weights)) for j in range(i) if weights[i, j] > 1e-9]
    return sorted(pairs, key=lambda pair: -pair[2])[:_EDGES]


def _joined(graph: Explicit, keys: NDArray[np.int64]) -> Floats | None:
    """The weights of the edges among these tasks, −A off the diagonal; None where A⁻¹ was given and has no inverse."""
    if graph.matrix is not None:
        weights: Floats = -graph.matrix[keys][:, keys].toarray()
        return weights
    try:
        inverse = np.linalg.inv(np.asarray(graph.dense))
    except np.linalg.LinAlgError:
        return None
    return -inverse[np.ix_(keys, keys)] if np.abs(inverse).max() < 1e9 else None


def _likeness(model: Any, chosen: list[Hashable]) -> Floats | None:
    """The correlation of the margins that tasks give to the same examples; None where there are too few."""
    rows = getattr(getattr(model, "active_set_", None), "rows", None)
    if rows is None or rows.shape[0] < 3 or getattr(model, "task_column", None) is not None:
        return None
    rows = rows[:_PROBES]
    margins = np.array([np.ravel(model.decision_function(rows, tasks=[task] * rows.shape[0])) for task in chosen])
    centred = margins - margins.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1))
    norms[norms < 1e-12] = np.inf
    correlation: Floats = (centred @ centred.T) / np.outer(norms, norms)
    return correlation


def _pairs(names: list[str], values: Floats) -> str:
    """The most and the least alike, in words."""
    pairs = [(float(values[i, j]), names[i], names[j]) for i in range(len(names)) for j in range(i)]
    pairs.sort(key=lambda pair: -pair[0])
    kept = pairs if len(pairs) <= 12 else pairs[:6] + pairs[-6:]
    rows = [(f"{one} and {other}", f"{value:.2f}") for value, one, other in kept]
    return table(("Tasks", "How alike"), rows, caption="The most and the least alike")
