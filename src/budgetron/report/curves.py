"""How the run went over time."""

from __future__ import annotations

from budgetron.evaluate import Point, Validation
from budgetron.report.page import as_count, as_percent
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table, thinned

_ROWS = 24  # of the table that stands in for a chart


def curves(validation: Validation) -> Section:
    """Error, F, mistakes, and log loss where there is one."""
    points = validation.curve
    if not points:
        return Section("curves", "Over time", paragraph("Nothing was learned: the stream was empty."))
    charts: dict[str, Chart] = {
        "error": _two(points, "error", "percent"),
        "f": _two(points, "f_measure", "percent"),
        "mistakes": _line(points, "mistakes so far", [point.so_far.mistakes for point in points], "count"),
    }
    plain = commonest_label_error(validation)
    if plain is not None:
        charts["error"]["mark"] = {"label": "always the commonest label", "value": rounded(plain)}
    last = points[-1]
    full = [point.window for point in points if _says_something(point, points)]
    window = as_count(max(point.window.n for point in points))
    parts = [
        chart("error", "Error", _went("Error", full[0].error, full[-1].error, window), _figures(points)),
        chart("f", "F", _went("F", full[0].f_measure, full[-1].f_measure, window)),
        chart(
            "mistakes",
            "Mistakes",
            f"{as_count(last.so_far.mistakes)} mistakes in {as_count(last.position)} examples. "
            "A line that flattens is a model that learns.",
        ),
    ]
    if last.so_far.log_loss is not None:
        charts["loss"] = _two(points, "log_loss", "number")
        says = f"Log loss: {last.so_far.log_loss:.3f} over all, {full[-1].log_loss:.3f} in the last window."
        parts.append(chart("loss", "Log loss", says))
    hint = "Point at a chart for its values, drag across to look closer, double-click to see all again."
    return Section("curves", "Over time", paragraph(hint, "note") + f'<div class="pair">{"".join(parts)}</div>', charts)


def commonest_label_error(validation: Validation) -> float | None:
    """The error of always saying the label that turned out commonest: what any learner must beat."""
    counted = validation.confusion
    if counted is None or not counted.counts.sum():
        return None
    return float(1 - counted.counts.sum(axis=1).max() / counted.counts.sum())


def _two(points: list[Point], figure: str, form: str) -> Chart:
    """A figure in each window, and up to its end."""
    in_windows = [
        rounded(getattr(point.window, figure)) if _says_something(point, points) else None for point in points
    ]
    return {
        "x": [point.position for point in points],
        "xLabel": "examples",
        "format": form,
        "series": [
            {"label": "so far", "values": [rounded(getattr(point.so_far, figure)) for point in points]},
            {"label": "in each window", "values": in_windows, "thin": True},
        ],
    }


def _says_something(point: Point, points: list[Point]) -> bool:
    """Whether a window is not just the rest of a stream: a few examples by themselves would mislead."""
    return 2 * point.window.n >= max(other.window.n for other in points)


def _line(points: list[Point], label: str, values: list[int], form: str) -> Chart:
    series = [{"label": label, "values": values}]
    return {"x": [point.position for point in points], "xLabel": "examples", "format": form, "series": series}


def _went(name: str, first: float | None, last: float | None, window: str) -> str:
    return (
        f"{name} went from {as_percent(first)} in the first window to {as_percent(last)} in the last, "
        f"of up to {window} examples each."
    )


def _figures(points: list[Point]) -> str:
    rows = [
        (
            as_count(point.position),
            as_percent(point.window.error),
            as_percent(point.so_far.error),
            as_percent(point.window.f_measure),
            as_percent(point.so_far.f_measure),
            as_count(point.so_far.mistakes),
        )
        for point in thinned(points, _ROWS)
    ]
    heads = ("Examples", "Error in window", "Error so far", "F in window", "F so far", "Mistakes")
    return table(heads, rows, caption="Over time")
