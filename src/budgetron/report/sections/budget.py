"""The section about the budget: stored examples per task, stored examples in all, and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from scipy import sparse
from sklearn.exceptions import NotFittedError

from budgetron.engine.memory import budget_of
from budgetron.errors import InputError
from budgetron.evaluate import Point, Validation
from budgetron.report.page import as_bytes, as_count, as_percent, name_of
from budgetron.report.parts import Chart, Section, chart, line_chart, paragraph, rounded, table, thinned

_N_NAMED = 7  # the number of tasks with an area of their own in the chart; the eighth colour is for all others
_MAX_ROWS = 12  # rows of the table below the chart


def budget(validation: Validation, model: Any) -> Section | None:
    """Return the section; None if the model does not say how many examples it stores.

    For a model that stores weights instead of examples, such as Budgetron, the section shows only the memory.
    """
    points = [point for point in validation.curve if point.stored is not None]
    if not points:
        return None
    charts: dict[str, Chart] = {}
    parts = []
    if any(point.budget_share for point in points):
        charts["share"], caption, numbers = _share_chart(points)
        parts.append(chart("share", "Stored examples by task", caption, numbers))
    capacity = getattr(model, "capacity_", None)
    # The capacity is None for a learner without a limit, and 0 for a learner that stores no examples.
    if capacity != 0:
        charts["stored"] = line_chart(points, "stored", [point.stored for point in points], "count")
        if capacity:
            charts["stored"]["mark"] = {"label": "budget", "value": capacity}
        limit_words = "without a limit" if capacity is None else f"of {as_count(capacity)} at most"
        caption = f"Stored examples: {as_count(points[-1].stored)} {limit_words}."
        parts.append(chart("stored", "Stored examples", caption))
    if points[-1].memory_bytes is not None:
        charts["memory"] = line_chart(points, "memory", [point.memory_bytes for point in points], "bytes")
        limit = memory_limit(model)
        if limit is not None and limit < 4 * points[-1].memory_bytes:  # a much larger limit would flatten the curve
            charts["memory"]["mark"] = {"label": "limit", "value": limit}
        # A budget in bytes includes the names of tasks; other bounds do not.
        names = "" if is_budget_in_bytes(model) else ", apart from task names"
        bound = "" if limit is None else f" It will never take more than {as_bytes(limit)}{names}."
        caption = f"Memory of the whole model: {as_bytes(points[-1].memory_bytes)}.{bound}"
        parts.append(chart("memory", "Memory", caption))
    note = "All tasks share the stored examples; none are reserved for a task."
    part = "replica" if hasattr(model, "replicas") else "shard"  # of a distributed model
    if capacity == 0:
        note = "The model stores weights, not examples."
        if hasattr(model, "shards"):
            note += f" It has {model.shards} {part}s, and the memory is that of all together."
    elif hasattr(model, "shards"):
        note = f"The model has {model.shards} {part}s. The tasks of a {part} share its stored examples."
    return Section("budget", "Budget", paragraph(note, "note") + f'<div class="pair">{"".join(parts)}</div>', charts)


def is_budget_in_bytes(model: Any) -> bool:
    """Return whether the budget of the model is a size, such as "64 KiB"."""
    try:
        return budget_of(type(model).__name__, getattr(model, "budget", None)).bytes is not None
    except InputError:  # another library's learner
        return False


def memory_limit(model: Any) -> int | None:
    """Return the bytes that the model will never exceed; None if they are unknown.

    Only a budget in bytes includes the names of tasks.
    """
    try:
        size = budget_of(type(model).__name__, getattr(model, "budget", None)).bytes
        if size is not None:
            return size
        if sparse.issparse(model.active_set_.rows):  # the size of future sparse rows is unknown
            return None
        n_classes = len(model.classes_)
        bound: int | None = model.memory_bound(model.n_features_in_, n_classes)
    except (AttributeError, InputError, NotFittedError):  # another library's learner, or an unfitted one
        return None
    return bound


def _share_chart(points: list[Point]) -> tuple[Chart, str, str]:
    """Return the chart of the tasks' shares of the stored examples, its caption and the table of its numbers."""
    # Choose tasks by their share over the complete run: at the end, an early task may have no stored examples left.
    total_share: Counter[Hashable] = Counter()
    for point in points:
        total_share.update(point.budget_share)
    top = [task for task, _ in total_share.most_common(_N_NAMED)]
    # A point has only the shares of the largest tasks, and no shares as long as nothing is stored.
    rest = [
        1 - sum(point.budget_share.get(task, 0.0) for task in top) if point.budget_share else 0.0 for point in points
    ]
    series = [
        {"label": name_of(task, 18), "values": [rounded(point.budget_share.get(task, 0.0)) for point in points]}
        for task in top
    ]
    if max(rest) > 0.0005:  # otherwise the area would be invisible, and its legend would confuse
        series.append({"label": "all others", "values": [rounded(max(value, 0.0)) for value in rest]})
    x = [point.position for point in points]
    last = points[-1].budget_share
    # None if nothing is stored at the end, or if the stream has no tasks: then the only share is that of the task None.
    largest = max(last, key=lambda task: last[task], default=None)
    caption = "Each task's share of the stored examples over time"
    if largest is not None:
        caption += f"; at the end {name_of(largest)} has the largest share, {as_percent(last[largest])}"
    rows = [
        (as_count(point.position), *(as_percent(point.budget_share.get(task, 0.0)) for task in top))
        for point in thinned(points, _MAX_ROWS)
    ]
    numbers = table(("Examples", *(name_of(task, 18) for task in top)), rows, caption="Share of the stored examples")
    described = {"x": x, "xLabel": "examples", "format": "percent", "stacked": True, "series": series}
    return described, f"{caption}.", numbers
