"""Statistics of a running model, in bounded memory: the data of `/v1/live` and `/v1/events`.

    {"model": "default", "learner": "Budgetron", "at": 1700000000.0, "position": 812, "begun": true,
     "traffic":  {"predicted": 9000, "learned": 1200, "refused": 3,               since the service started
                  "seconds": [[at, predicted, learned], …]},                      these totals in the last 300 seconds
     "overall":  {"n", "mistakes", "error", "f_measure", "precision", "recall", "log_loss", "brier", "auc",
                  "average_precision", "precision_at_k"},                         or null
     "rare":     {"label": "click", "share": 0.01}, "k": 100,                     a label below 10 %, or null
     "curve":    [{"position", "window": {…}, "so_far": {…}, "stored", "memory_bytes", "budget_share", "beliefs"}, …],
                                                                                  ≤ 120 points
     "tasks":    [{"task", "n", "mistakes", "error", "f_measure", …}, …],         the 200 with most mistakes
     "n_tasks":  1000, "tasks_counted_together": 17,                              17 examples of later tasks
     "share":    [["ann", 0.2], …],                                               of the stored examples; ≤ 32 tasks
     "alarms":   [{"position", "task", "overall", "before", "after", "n", "loss"}, …],    ≤ 20, latest first
     "n_alarms": 1,
     "operating_point": {"low", "high", "expected_cost", "expected_asked", "so_far": {…}, …},    or null
     "stored": 500, "capacity": 500, "memory_bytes": 120000, "budget_bytes": null,
     "beliefs":  [{"weight": 0.7, "words": "linear, small prior", "apart": false, …}, …],    [] if not a Budgetron
     "relations": {"tasks": ["ann", …], "values": [[1.0, −0.4, …], …]},           ≤ 24 tasks; null: cannot be computed
     "candidate": {"version", "share", "current": {"overall", "curve"}, "candidate": {"overall", "curve"}, …}, or null
     "mistakes": [{"position", "task", "label", "predicted", "margin"}, …],       the last 50, newest first
     "waiting_labels": 12, "n_corrections": 3, "in_shards": false}                see GET queue and GET corrections

Error and F-measure are progressive: each example is judged by its margin just before it was learned. Examples, mistakes
and alarms are counted from the start of the service and, except in `traffic`, again from zero when the model is
replaced. The first 1,000 tasks are counted one by one, and the examples of later tasks together.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from budgetron.durable import Learned, Request
from budgetron.engine.memory import budget_of
from budgetron.errors import InputError
from budgetron.evaluate.drift import MAX_ALARMS, Alarm
from budgetron.evaluate.metrics.confusion import rare_label
from budgetron.evaluate.metrics.counts import MISTAKES, Figures
from budgetron.evaluate.scoring import Scored
from budgetron.evaluate.tally import Tally
from budgetron.report.sections.relations import order_by_similarity

# Examples per window of the curve, or more, because a window ends with a request. If the curve has too many windows,
# several windows share a point.
WINDOW = 200
TASKS = 1000  # tasks that are counted one by one; later tasks are counted together
_SHOWN_TASKS, _SHOWN_POINTS, _SHOWN_SHARES, _SHOWN_MISTAKES, _SECONDS = 200, 120, 32, 50, 300
_SHOWN_RELATIONS = 24
_SHOWN_ALARMS = 20
K = 100  # the k of precision at k


class LiveStatistics:
    """Counts of one model. The writer thread adds learned examples; any thread may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally: Tally | None = None  # None before the first example
        self._shown_curve: list[dict[str, Any]] | None = None  # a cache; None after a window has ended
        self._shown_relations: tuple[int, dict[str, Any] | None] = (0, None)
        self._last_window_end = 0
        # Drift alarms of models that were replaced: their number, and the latest ones, which may be unsent.
        self._earlier_alarms = 0
        self._latest_earlier_alarms: list[Alarm] = []
        self.n_learned = self.n_refused = self.n_predicted = self.n_mistakes = 0
        self._mistakes: deque[dict[str, Any]] = deque(maxlen=_SHOWN_MISTAKES)
        self._seconds: deque[tuple[float, int, int]] = deque(maxlen=_SECONDS)

    # ---- counting

    def learned(self, model: Any, request: Request, n: int, answer: Learned | Exception) -> None:
        """Count one request of the writer."""
        if isinstance(answer, Exception):
            self.n_refused += n
        elif not answer.repeated and n:
            with self._lock:
                self._count(model, request, answer)

    def _count(self, model: Any, request: Request, answer: Learned) -> None:
        classes = answer.classes
        start = answer.n_before  # earlier rows of a stream were counted when they were learned
        y, margins = np.asarray(request.y)[start:], answer.margins[start:]
        tasks = None if request.tasks is None else request.tasks[start:]
        if self._tally is None:
            self._tally = Tally(TASKS, K, hasattr(model, "predict_proba"))
        tally = self._tally
        rows = tally.add(classes, Scored(y, tasks, margins))
        self.n_learned += len(rows)
        wrong = np.flatnonzero(rows[:, MISTAKES])
        self.n_mistakes += len(wrong)
        for i in wrong[-_SHOWN_MISTAKES:].tolist():
            margin = margins[i]
            predicted = int(margin > 0) if margin.ndim == 0 else int(margin.argmax())
            self._mistakes.append({
                "position": answer.position, "task": None if tasks is None else plain(tasks[i]),
                "label": plain(y[i]), "predicted": plain(classes[predicted]), "margin": margin.tolist(),
            })  # fmt: skip
        if tally.position >= self._last_window_end + WINDOW:
            self._last_window_end = tally.position
            tally.close_window(model)
            self._shown_curve = None

    def tick(self, at: float) -> None:
        """Record the traffic, once per second."""
        self._seconds.append((round(at, 3), self.n_predicted, self.n_learned))

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Reset the counts while the model is replaced, so that no reader sees counts of the wrong model."""
        with self._lock:
            yield
            if self._tally is not None:
                self._earlier_alarms += self._tally.drift.total
                self._latest_earlier_alarms = self._stored_alarms()
            self._tally, self._last_window_end, self._shown_curve = None, 0, None
            self._mistakes.clear()
            self._shown_relations = (0, None)

    # ---- reading

    def overall(self) -> Figures | None:
        """The metrics of the examples learned since the start or the last replacement; None without examples."""
        with self._lock:
            return None if self._tally is None else self._tally.overall

    def alarms_after(self, n: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of all drift alarms, and those after the n-th that are still stored.

        Alarms of models that were replaced are included, so that the number never falls, and alarms from just before a
        replacement are still sent.
        """
        with self._lock:
            total = self._earlier_alarms + (0 if self._tally is None else self._tally.drift.total)
            return total, [_alarm(alarm) for alarm in self._stored_alarms()[n - total :]] if n < total else []

    def _stored_alarms(self) -> list[Alarm]:
        latest = [] if self._tally is None else list(self._tally.drift.latest)
        return [*self._latest_earlier_alarms, *latest][-MAX_ALARMS:]

    def of_task(self, task: Hashable) -> dict[str, Any] | None:
        """The metrics of one task; None if it has no example, or is not among the first `TASKS` tasks."""
        with self._lock:
            figures = None if self._tally is None else self._tally.of_task(task)
            return None if figures is None else figures.to_dict()

    def comparison(self) -> dict[str, Any]:
        """The part of the state that is shown for a model and its candidate, to compare them."""
        with self._lock:
            overall = None if self._tally is None else self._tally.overall.to_dict()
            return {"overall": overall, "curve": self._thinned_curve()}

    def state(self, name: str, host: Any) -> dict[str, Any]:
        """The state, as described at the top of this file."""
        with self._lock:
            model, position = host.model, host.position
            is_fitted, tally = hasattr(model, "n_seen_"), self._tally
            by_task = {} if tally is None else tally.counts.by_task()
            worst = {} if tally is None else tally.per_task(_SHOWN_TASKS)
            tasks = [{"task": plain(task), **row.to_dict()} for task, row in worst.items()]
            overall = None if tally is None else tally.overall.to_dict()
            rare = None if tally is None else rare_label(tally.confusion.named(model.classes_.tolist()))
            together = 0 if tally is None else int(tally.counts.others[0])
            curve = self._thinned_curve()
            mistakes = list(reversed(self._mistakes))
            latest = [] if tally is None else list(tally.drift.latest)[-_SHOWN_ALARMS:]
            alarms, n_alarms = [_alarm(alarm) for alarm in reversed(latest)], 0 if tally is None else tally.drift.total
        share = list(model.budget_share_.items())[:_SHOWN_SHARES] if is_fitted else []
        relations = self._relations_shown(model, by_task, position) if is_fitted else None
        return {
            "model": name, "learner": type(model).__name__, "at": round(time.time(), 3), "position": position,
            "begun": is_fitted,
            "traffic": {"predicted": self.n_predicted, "learned": self.n_learned, "refused": self.n_refused,
                        "seconds": list(self._seconds)},
            "overall": overall, "rare": None if rare is None else {"label": plain(rare[0]), "share": rare[1]}, "k": K,
            "curve": curve,
            "tasks": tasks, "n_tasks": len(by_task), "tasks_counted_together": together,
            "share": [[plain(task), part] for task, part in share],
            "stored": model.n_stored_ if is_fitted else 0, "capacity": model.capacity_ if is_fitted else None,
            "memory_bytes": model.memory_bytes_ if is_fitted else 0, "budget_bytes": budget_bytes(model),
            "operating_point": operating_point(model), "alarms": alarms, "n_alarms": n_alarms,
            "beliefs": beliefs(model) if is_fitted else [], "relations": relations, "mistakes": mistakes,
            "n_corrections": host.n_corrections, "in_shards": host.in_shards,
        }  # fmt: skip

    def _relations_shown(self, model: Any, by_task: dict[Any, Any], position: int) -> dict[str, Any] | None:
        """The learned relations of the most frequent tasks. Sent every second, but computed once per 200 records."""
        computed_at, shown = self._shown_relations
        if shown is None or position - computed_at >= WINDOW or position < computed_at:
            shown = relations_of(model, sorted(by_task, key=lambda task: -by_task[task][0])[:_SHOWN_RELATIONS])
            self._shown_relations = (position, shown)
        return shown

    def _thinned_curve(self) -> list[dict[str, Any]]:
        """The curve, evenly thinned and rounded. Computed once per window, but sent every second."""
        if self._tally is None:
            return []
        if self._shown_curve is None:
            points = self._tally.curve.points(self._tally.probabilistic)
            step = max(1, -(-len(points) // _SHOWN_POINTS))
            self._shown_curve = [_rounded(point.to_dict()) for point in points[::-1][::step][::-1]]
        return self._shown_curve


def _rounded(value: Any) -> Any:
    """The same value with numbers rounded to four decimals."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def _alarm(alarm: Alarm) -> dict[str, Any]:
    return {**alarm.to_dict(), "task": plain(alarm.task)}


def relations_of(model: Any, tasks: list[Hashable]) -> dict[str, Any] | None:
    """The correlations between the functions of these tasks; None for one task, or if the model cannot compute them."""
    if len(tasks) < 2 or not hasattr(model, "task_similarity"):
        return None
    try:
        values = model.task_similarity(tasks)
    except InputError:  # for example because the model learns sparse rows, whose weights are hashed
        return None
    order = order_by_similarity(values)
    values = np.round(values[np.ix_(order, order)], 2)
    return {"tasks": [plain(tasks[i]) for i in order], "values": values.tolist()}


def beliefs(model: Any) -> list[dict[str, Any]]:
    """The models that a Budgetron mixes, and their weights; an empty list for another learner."""
    return [{"weight": weight, **vars(belief)} for belief, weight in getattr(model, "beliefs_", [])]


def operating_point(model: Any) -> dict[str, Any] | None:
    """The settings of a model's operating point and its expected costs; None if it has none."""
    point = getattr(model, "operating_point", None)
    if point is None:
        return None
    description: dict[str, Any] = point.to_dict()
    return description | {"labels": [plain(label) for label in description["labels"]]}


def budget_bytes(model: Any) -> int | None:
    return budget_of(type(model).__name__, getattr(model, "budget", None)).bytes


def plain(value: Any) -> Any:
    """A task or label as a JSON value. Types that JSON lacks become strings."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
