"""What is kept, whose it is, and what it takes."""

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
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table, thinned

_NAMED = 7  # tasks with an area of their own; the eighth colour is for all others
_ROWS = 12


def budget(validation: Validation, model: Any) -> Section | None:
    """The store's share by task over time, how full it is, and the bytes."""
    points = [point for point in validation.curve if point.stored is not None]
    if not points:
        return None
    charts: dict[str, Chart] = {}
    parts = []
    if any(point.budget_share for point in points):
        charts["share"], says, figures = _share(points)
        parts.append(chart("share", "Whose the stored examples are", says, figures))
    charts["stored"] = _line(points, "stored", [point.stored for point in points], "count")
    capacity = getattr(model, "capacity_", None)
    if capacity:
        charts["stored"]["mark"] = {"label": "budget", "value": capacity}
    most = "without a limit" if capacity is None else f"of {as_count(capacity)} at most"
    parts.append(chart("stored", "How full the store is", f"Stored examples: {as_count(points[-1].stored)} {most}."))
    if points[-1].memory_bytes is not None:
        charts["memory"] = _line(points, "memory", [point.memory_bytes for point in points], "bytes")
        promise = promised(model)
        if promise is not None and promise < 4 * points[-1].memory_bytes:
            charts["memory"]["mark"] = {"label": "bound", "value": promise}
        bound = "" if promise is None else f" It will never take more than {as_bytes(promise)}, names of tasks aside."
        says = f"Memory of the whole model: {as_bytes(points[-1].memory_bytes)}.{bound}"
        parts.append(chart("memory", "Memory", says))
    note = "What the model remembers is shared by all tasks; nothing is set aside for any of them."
    if hasattr(model, "shards"):
        note = f"The model is in {model.shards} shards. What each of them remembers is shared by its own tasks."
    return Section("budget", "Budget", paragraph(note, "note") + f'<div class="pair">{"".join(parts)}</div>', charts)


def promised(model: Any) -> int | None:
    """Bytes that the model will never exceed, as far as it can tell."""
    try:
        size = budget_of(type(model).__name__, getattr(model, "budget", None)).bytes
        if size is not None:
            return size
        if sparse.issparse(model.active_set_.rows):  # what a sparse row takes is not known beforehand
            return None
        n_classes = len(model.classes_)
        bound: int | None = model.memory_bound(model.n_features_in_, n_classes)
    except (AttributeError, InputError, NotFittedError):  # not a learner of ours, or one that has learned nothing
        return None
    return bound


def _share(points: list[Point]) -> tuple[Chart, str, str]:
    weight: Counter[Hashable] = Counter()
    for point in points:
        weight.update(point.budget_share)
    top = [task for task, _ in weight.most_common(_NAMED)]
    rest = [1 - sum(point.budget_share.get(task, 0.0) for task in top) for point in points]
    series = [
        {"label": name_of(task, 18), "values": [rounded(point.budget_share.get(task, 0.0)) for point in points]}
        for task in top
    ]
    if max(rest) > 0.0005:
        series.append({"label": "all others", "values": [rounded(max(value, 0.0)) for value in rest]})
    x = [point.position for point in points]
    last = points[-1].budget_share
    largest = max(last, key=lambda task: last[task], default=None) if last else None
    says = "Each task's share of the stored examples over time"
    if largest is not None:
        says += f"; at the end {name_of(largest)} has the most, {as_percent(last[largest])}"
    rows = [
        (as_count(point.position), *(as_percent(point.budget_share.get(task, 0.0)) for task in top))
        for point in thinned(points, _ROWS)
    ]
    figures = table(("Examples", *(name_of(task, 18) for task in top)), rows, caption="Share of the store")
    described = {"x": x, "xLabel": "examples", "format": "percent", "stacked": True, "series": series}
    return described, f"{says}.", figures


def _line(points: list[Point], label: str, values: list[Any], form: str) -> Chart:
    series = [{"label": label, "values": values}]
    return {"x": [point.position for point in points], "xLabel": "examples", "format": form, "series": series}
