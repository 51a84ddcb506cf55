"""The section with error, F-measure, AUC, average precision, mistakes and log loss over time."""

from __future__ import annotations

from budgetron.evaluate import Point, Validation
from budgetron.report.page import as_count, as_decimal, as_percent
from budgetron.report.parts import Chart, Section, chart, line_chart, paragraph, rounded, table, thinned

_MAX_ROWS = 24  # rows of the table below a chart


def curves(validation: Validation) -> Section:
    """Return the section; log loss is included if the model gives probabilities."""
    points = validation.curve
    if not points:
        return Section("curves", "Over time", paragraph("Nothing was learned: the stream was empty."))
    charts: dict[str, Chart] = {
        "error": _two_lines(points, "error", "percent"),
        "f": _two_lines(points, "f_measure", "percent"),
        "mistakes": line_chart(points, "mistakes so far", [point.so_far.mistakes for point in points], "count"),
    }
    constant = constant_prediction_error(validation)
    if constant is not None:
        charts["error"]["mark"] = {"label": "always the most frequent label", "value": rounded(constant)}
    last = points[-1]
    # Leave out a short last window: its value would be mostly noise.
    full = [point.window for point in points if _is_large_enough(point, points)]
    window = as_count(points[0].window.n)
    parts = [
        chart("error", "Error", _first_and_last("Error", full[0].error, full[-1].error, window), _error_table(points)),
        chart("f", "F-measure", _first_and_last("F-measure", full[0].f_measure, full[-1].f_measure, window)),
        chart(
            "mistakes",
            "Mistakes",
            f"{as_count(last.so_far.mistakes)} mistakes in {as_count(last.position)} examples. "
            "The line becomes flatter when the model improves.",
        ),
    ]
    if last.so_far.auc is not None:
        ranked = _ranking_charts(validation, charts)
        # If a label is rare, the error says little, so AUC and average precision come first.
        parts = [*parts, *ranked] if validation.rare is None else [*ranked, *parts]
    if last.so_far.log_loss is not None:
        charts["loss"] = _two_lines(points, "log_loss", "number")
        caption = f"Log loss: {last.so_far.log_loss:.3f} overall, {full[-1].log_loss:.3f} in the last window."
        parts.append(chart("loss", "Log loss", caption))
    hint = (
        "The F-measure is the harmonic mean of precision and recall. Move the pointer over a chart to read values, "
        "drag to zoom in, double-click to zoom out."
    )
    return Section("curves", "Over time", paragraph(hint, "note") + f'<div class="pair">{"".join(parts)}</div>', charts)


def _ranking_charts(validation: Validation, charts: dict[str, Chart]) -> list[str]:
    """Return the charts of AUC and average precision, and describe them in `charts`."""
    points, overall = validation.curve, validation.overall
    windows = [point.window for point in points if _is_large_enough(point, points)]
    charts["auc"] = _two_lines(points, "auc", "number")
    charts["auc"]["mark"] = {"label": "random", "value": 0.5}
    # The axis begins at 0.5, the value of random scores, unless some window is worse.
    charts["auc"]["range"] = [min(0.5, *_defined_values(charts["auc"])), 1]
    charts["precision"] = _two_lines(points, "average_precision", "number")
    share = validation.share_of_positives
    if share is not None:
        charts["precision"]["mark"] = {"label": "random", "value": rounded(share)}
    auc = (
        f"AUC, the chance that a positive example is scored above a negative one: {as_decimal(overall.auc)} overall, "
        f"{as_decimal(windows[-1].auc)} in the last window."
    )
    precision = (
        f"Average precision, the area under the curve of precision and recall: {as_decimal(overall.average_precision)} "
        f"overall, {as_decimal(windows[-1].average_precision)} in the last window."
    )
    return [chart("auc", "AUC", auc, _ranking_table(points)), chart("precision", "Average precision", precision)]


def _defined_values(described: Chart) -> list[float]:
    """Return the values of all lines of a chart, without gaps."""
    return [value for series in described["series"] for value in series["values"] if value is not None]


def _ranking_table(points: list[Point]) -> str:
    """Return the table of AUC and average precision over time."""
    rows = [
        (
            as_count(point.position), as_decimal(point.window.auc), as_decimal(point.so_far.auc),
            as_decimal(point.window.average_precision), as_decimal(point.so_far.average_precision),
            as_percent(point.window.precision_at_k),
        )
        for point in thinned(points, _MAX_ROWS)
    ]  # fmt: skip
    heads = ("Examples", "AUC in window", "so far", "Average precision in window", "so far", "Precision at k in window")
    return table(heads, rows, caption="Ranking over time")


def constant_prediction_error(validation: Validation) -> float | None:
    """Return the error of always predicting the most frequent label: a baseline that any learner should beat."""
    confusion = validation.confusion
    if confusion is None or not confusion.counts.sum():
        return None
    return float(1 - confusion.counts.sum(axis=1).max() / confusion.counts.sum())


def _two_lines(points: list[Point], metric: str, form: str) -> Chart:
    """Return a chart with two lines: a metric per window, and the metric over all examples so far."""
    in_windows = [
        rounded(getattr(point.window, metric)) if _is_large_enough(point, points) else None for point in points
    ]
    return {
        "x": [point.position for point in points],
        "xLabel": "examples",
        "format": form,
        "series": [
            {"label": "so far", "values": [rounded(getattr(point.so_far, metric)) for point in points]},
            {"label": "per window", "values": in_windows, "thin": True},
        ],
    }


def _is_large_enough(point: Point, points: list[Point]) -> bool:
    """Return whether a window has at least half as many examples as the first. Shorter windows would mislead."""
    return 2 * point.window.n >= points[0].window.n  # only the last window may be shorter than the first


def _first_and_last(name: str, first: float | None, last: float | None, window: str) -> str:
    """Describe how a metric changed from the first to the last window."""
    return (
        f"{name} went from {as_percent(first)} in the first window to {as_percent(last)} in the last, "
        f"of up to {window} examples each."
    )


def _error_table(points: list[Point]) -> str:
    """Return the table of error, F-measure and mistakes over time."""
    rows = [
        (
            as_count(point.position),
            as_percent(point.window.error),
            as_percent(point.so_far.error),
            as_percent(point.window.f_measure),
            as_percent(point.so_far.f_measure),
            as_count(point.so_far.mistakes),
        )
        for point in thinned(points, _MAX_ROWS)
    ]
    heads = ("Examples", "Error in window", "Error so far", "F in window", "F so far", "Mistakes")
    return table(heads, rows, caption="Over time")
