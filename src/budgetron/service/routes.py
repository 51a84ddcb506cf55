"""Which path does what, and which role may. The document at /openapi.json is made from this list.

Paths below /v1 are those of the model named `default`; the same below /v1/models/NAME are those of another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from budgetron.service import admin, feedback, learning, predicting, wire

Handler = Callable[..., Awaitable[None]]
DEFAULT = "default"


@dataclass(frozen=True)
class Route:
    """One path of a model, relative to it."""

    method: str
    path: str
    role: str
    handler: Handler | None  # None: the service itself answers
    summary: str
    request: Any = None
    answer: Any = None  # or a tuple of them: one of these
    answers: dict[int, str] = field(default_factory=dict)  # further statuses, and when
    streams: bool = False  # takes NDJSON too
    binary: str = ""  # "request", "answer": a file instead of JSON


_LEARNING = {409: "The key came before with other examples.", 503: "Too much waits.", 507: "The disk is full."}
_SHARDS = "The model is in shards."
MODEL_ROUTES = [
    Route("POST", "predict", "predict", predicting.predict, "Predict one example, or many",
          wire.PredictRequest, (wire.Prediction, wire.Predictions), {409: "The model has learned nothing yet."},
          streams=True),
    Route("POST", "learn", "learn", learning.learn, "Learn labelled examples",
          wire.LearnRequest, wire.LearnAnswer, _LEARNING, streams=True),
    Route("POST", "feedback", "learn", feedback.feedback, "Label an earlier prediction",
          wire.FeedbackRequest, (wire.FeedbackAnswer, wire.FeedbackAnswers),
          {**_LEARNING, 404: "No such prediction.", 409: "Another label came first."}),
    Route("GET", "model", "predict", admin.model, "The model's settings and what it holds", None, wire.ModelAnswer),
    Route("GET", "tasks/{task}", "predict", admin.task, "One task", None, wire.TaskAnswer, {404: "Unknown task."}),
    Route("DELETE", "tasks/{task}", "admin", admin.forget, "Forget a task", None, wire.Done, _LEARNING),
    Route("GET", "live", "predict", admin.live, "What the live page shows", None, dict[str, Any]),
    Route("GET", "events", "predict", None, "The same every second, as server-sent events", None, None),
    Route("GET", "snapshot", "admin", admin.download, "Download the model file", None, None,
          {409: "The model has learned nothing yet.", 501: _SHARDS}, binary="answer"),
    Route("PUT", "snapshot", "admin", admin.restore, "Replace the model by a model file", None, wire.Done,
          {501: _SHARDS, 507: "The disk is full."}, binary="request"),
    Route("POST", "snapshot", "admin", admin.snapshot, "Write a snapshot to disk now", None, wire.Done,
          {507: "The disk is full."}),
    Route("GET", "backup", "admin", admin.backup, "Download the whole state, log and keys included", None, None,
          {501: _SHARDS, 507: "The disk is full."}, binary="answer"),
]  # fmt: skip
BY_PATH = {(route.method, route.path): route for route in MODEL_ROUTES}
METHODS: dict[str, list[str]] = {}
for _route in MODEL_ROUTES:
    METHODS.setdefault(_route.path, []).append(_route.method)

# Paths of the service itself: path → role that may (None: anyone), summary.
OWN_ROUTES: dict[str, tuple[str | None, str]] = {
    "/": (None, "The live page"),
    "/docs": (None, "This service's paths, to read"),
    "/openapi.json": (None, "This service's paths, for programs"),
    "/healthz": (None, "200 while the process answers"),
    "/readyz": (None, "200 while it can learn labels; 503, with the reason, while it is stopping or cannot write"),
    "/metrics": ("predict", "Figures for Prometheus"),
    "/v1/models": ("predict", "The names of the models"),
}


def place(path: str) -> tuple[str, str]:
    """The model and the path relative to it, of a path below /v1; what was quoted in it is not decoded yet."""
    parts = path.split("/", 4)  # "", "v1", …
    if len(parts) == 5 and parts[2] == "models":
        return parts[3], parts[4]
    return DEFAULT, path[4:]
