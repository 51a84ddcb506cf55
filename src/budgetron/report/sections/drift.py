"""The section about drift alarms: when the loss of a task rose, and by how much."""

from __future__ import annotations

from budgetron.evaluate import Alarm, Validation
from budgetron.report.page import as_count, as_percent, name_of
from budgetron.report.parts import Section, paragraph, table

_WHAT = (
    "An alarm means that the loss has risen by more than chance explains (ADWIN). A falling loss raises no alarm: the "
    "model is learning. “Position” is the example at which the rise was detected. The rise began about “Examples "
    "since” examples earlier; for a task, only its own examples are counted."
)


def drift(validation: Validation) -> Section | None:
    """Return the section; None for an empty stream."""
    if not validation.overall.n:
        return None
    if not validation.alarms:
        text = "No alarm: the loss did not rise by more than chance explains, neither overall nor for any task."
        return Section("drift", "Drift", paragraph(text))
    newest = validation.alarms[::-1]
    rows = [
        (
            "all tasks together" if alarm.overall else name_of(alarm.task), as_count(alarm.position),
            _loss(alarm, alarm.before), _loss(alarm, alarm.after), as_count(alarm.n),
        )
        for alarm in newest
    ]  # fmt: skip
    count = as_count(validation.n_alarms)
    shown = f"{count} alarms" if validation.n_alarms != 1 else "One alarm"
    more = f"; the latest {len(newest)} are listed" if validation.n_alarms > len(newest) else ""
    loss = validation.alarms[0].loss.capitalize()
    heads = ("Task", "Position", f"{loss} before", "after", "Examples since")
    return Section("drift", "Drift", paragraph(f"{shown}{more}.") + table(heads, rows) + paragraph(_WHAT, "note"))


def _loss(alarm: Alarm, mean: float) -> str:
    return as_percent(mean) if alarm.loss == "error" else f"{mean:.3f}"
