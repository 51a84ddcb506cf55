"""The section about decisions: the thresholds of the operating point, and the costs of other thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from budgetron.decisions import OperatingPoint
from budgetron.decisions.score_grid import edges
from budgetron.decisions.words import point_words
from budgetron.report.page import name_of
from budgetron.report.parts import Chart, Section, chart, pairs, paragraph, rounded, thinned

_MAX_POINTS = 200  # points of the chart


def decisions(model: Any) -> Section | None:
    """Return the section; None for a model without an operating point."""
    point = getattr(model, "operating_point", None)
    if point is None or point.labels is None or not point.n:
        return None
    markup, charts = pairs(point_words(point, lambda label: name_of(label, 24))), {}
    if point.costs is not None:
        charts["costs"] = _costs(point)
        caption = (
            "The cost per example of each threshold on the examples counted, if no person is asked. The dashed line "
            "is the lowest cost."
        )
        markup += f'<div class="pair">{chart("costs", "Cost by threshold", caption)}</div>'
    if point.max_error is not None:
        markup += paragraph(_guarantee(point), "note")
    return Section("decisions", "Decisions", markup, charts)


def _guarantee(point: OperatingPoint) -> str:
    """Return what `max_error` promises, and under which conditions."""
    return (
        "If the model no longer changes, and examples are independent draws from one distribution, then with "
        f"probability {100 * point.confidence:g} % at most {100 * (point.max_error or 0.0):g} % of the future "
        "decisions for each label are wrong. While the model keeps learning, this is only an estimate. The command "
        "budgetron calibrate chooses thresholds for which the limit holds."
    )


def _costs(point: OperatingPoint) -> Chart:
    """Describe the chart of the cost per example over the threshold."""
    assert point.costs is not None
    negatives, positives = point.counts[0]
    # Cost of each threshold: positives below it are missed, negatives at or above it are false alarms.
    missed = point.costs.fn * (np.cumsum(positives) - positives)
    false = point.costs.fp * (negatives.sum() - np.cumsum(negatives) + negatives)
    cost = (missed + false) / point.n
    # Leave out the extreme scores, which would take most of the chart.
    share = np.cumsum(negatives + positives) / point.n
    first, last = (int(np.searchsorted(share, limit)) for limit in (0.001, 0.999))
    part = slice(min(first, int(cost.argmin())), max(last, int(cost.argmin())) + 1)
    cost, scores = cost[part], edges(point.scale or 1.0)[part]
    # The lowest edge is −∞, which JSON cannot represent.
    x = expit(scores) if point.log_odds else np.maximum(scores, -1e300)
    points = thinned(list(zip(x.tolist(), cost.tolist(), strict=True)), _MAX_POINTS)
    described: Chart = {
        "x": [rounded(threshold, 6) for threshold, _ in points],
        "xLabel": "threshold of the probability" if point.log_odds else "threshold of the margin",
        "xFormat": "number", "format": "number", "sync": "costs",
        "series": [{"label": "cost per example", "values": [rounded(cost) for _, cost in points]}],
        "mark": {"label": "lowest", "value": rounded(float(cost.min()))},
    }  # fmt: skip
    return described
