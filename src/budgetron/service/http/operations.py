"""The list of operations, with their paths, roles and types. Routing and /openapi.json are made from it.

The paths of a model begin with /v1/models/NAME. The paths of the model named `default` may also begin with /v1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from budgetron.service.handlers import (
    admin,
    correcting,
    deciding,
    feedback,
    learning,
    ndjson,
    predicting,
    service_admin,
    standby,
    versions,
)
from budgetron.service.handlers.ndjson import NDJSON
from budgetron.service.http import admin_wire, wire

Handler = Callable[..., Awaitable[Response]]  # takes a Call, or the service and a ServiceCall
DEFAULT = "default"
PROBES = ("/healthz", "/readyz")
__all__ = ["DEFAULT", "MODEL_OPERATIONS", "NDJSON", "PROBES", "SERVICE_OPERATIONS", "SERVICE_PATHS", "Operation"]


@dataclass(frozen=True)
class Operation:
    """One method of one path. The path is relative to the path of its model (/v1/models/NAME), or to /v1."""

    method: str
    path: str
    role: str
    handler: Handler | None  # None: an event stream
    summary: str
    request: Any = None
    answer: Any = None  # a class of `wire` or `admin_wire`, or a tuple of alternatives
    problems: dict[int, str] = field(default_factory=dict)  # error statuses besides the common ones, and their cause
    stream_handler: Handler | None = None  # for a body of NDJSON
    binary: str = ""  # "request" or "answer": a file instead of JSON

    @property
    def is_audited(self) -> bool:
        """Whether the audit log records every call: an administrator changes something, or downloads the model."""
        return self.role == "admin" and (self.method != "GET" or bool(self.binary))


_LEARNING = {409: "The idempotency key was used with other examples.", 503: "Too many examples wait.",
             507: "The disk is full."}  # fmt: skip
_DISK_FULL = {507: "The disk is full."}
_SHARDS = "Not available for a model in shards."
_VERSIONS = {404: "No such version, or no candidate.", 501: _SHARDS, 507: "The disk is full."}
MODEL_OPERATIONS = [
    Operation("POST", "predict", "predict", predicting.predict, "Predict one example, or several",
              wire.PredictRequest, (wire.Prediction, wire.Predictions), {409: "The model has learned nothing yet."},
              stream_handler=ndjson.predict_stream),
    Operation("GET", "queue", "learn", predicting.queue, "Predictions whose labels are worth asking for", None,
              wire.QueueAnswer),
    Operation("POST", "learn", "learn", learning.learn, "Learn labelled examples",
              wire.LearnRequest, wire.LearnAnswer, _LEARNING, stream_handler=ndjson.learn_stream),
    Operation("POST", "feedback", "learn", feedback.feedback, "Label an earlier prediction",
              wire.FeedbackRequest, (wire.FeedbackAnswer, wire.FeedbackAnswers),
              {**_LEARNING, 404: "No such prediction.", 409: "It has another label already, or a withdrawn one."}),
    Operation("POST", "corrections", "admin", correcting.correct, "Correct or withdraw a label that was learned",
              admin_wire.CorrectionRequest, admin_wire.CorrectionAnswer,
              {404: "No such idempotency key.", 409: "The record is no longer in the log.", 501: _SHARDS,
               507: "The disk is full."}),
    Operation("GET", "corrections", "admin", correcting.corrections, "The list of past corrections", None,
              admin_wire.CorrectionsAnswer, {501: _SHARDS}),
    Operation("GET", "model", "predict", admin.model, "The settings and statistics of the model", None,
              wire.ModelAnswer),
    Operation("GET", "tasks/{task}", "predict", admin.task, "The statistics of one task", None, wire.TaskAnswer,
              {404: "Unknown task."}),
    Operation("DELETE", "tasks/{task}", "admin", admin.forget, "Forget a task", None, wire.Done, _DISK_FULL),
    Operation("PUT", "operating-point", "admin", deciding.change, "Set how the model decides, by a threshold or costs",
              admin_wire.OperatingPointRequest, admin_wire.OperatingPointAnswer, _DISK_FULL),
    Operation("DELETE", "operating-point", "admin", deciding.remove, "Remove the operating point", None,
              admin_wire.OperatingPointAnswer, _DISK_FULL),
    Operation("GET", "live", "predict", admin.live, "The live state, as the live page shows it", None, dict[str, Any]),
    Operation("GET", "events", "predict", None, "The live state every second, as server-sent events", None, None),
    Operation("GET", "snapshot", "admin", admin.download, "Download the model file", None, None,
              {409: "The model has learned nothing yet.", 501: _SHARDS}, binary="answer"),
    Operation("PUT", "snapshot", "admin", admin.restore, "Replace the model by a model file", None, wire.Done,
              {501: _SHARDS, 507: "The disk is full."}, binary="request"),
    Operation("POST", "snapshot", "admin", admin.snapshot, "Write a snapshot to disk now", None, wire.Done,
              {507: "The disk is full."}),
    Operation("GET", "backup", "admin", admin.backup, "Download the complete state, with log and idempotency keys",
              None, None, {501: _SHARDS, 507: "The disk is full."}, binary="answer"),
    Operation("GET", "versions", "admin", versions.versions, "The versions, and the candidate", None,
              admin_wire.VersionsAnswer, {501: _SHARDS}),
    Operation("PUT", "versions/{version}", "admin", versions.save,
              "Save the model, or an uploaded model file, as a version", None, wire.Done,
              {409: "The model has learned nothing yet.", 501: _SHARDS, 507: "The disk is full."}, binary="request"),
    Operation("POST", "versions/{version}", "admin", versions.activate, "Replace the model by a version", None,
              wire.Done, _VERSIONS),
    Operation("DELETE", "versions/{version}", "admin", versions.delete, "Delete a version", None, wire.Done,
              _VERSIONS),
    Operation("POST", "rollback", "admin", versions.rollback, "Return to the model before the last replacement", None,
              wire.Done, _VERSIONS),
    Operation("PUT", "candidate", "admin", versions.begin, "Run a version beside the model in use",
              admin_wire.CandidateRequest, dict[str, Any], _VERSIONS),
    Operation("DELETE", "candidate", "admin", versions.end, "End the candidate", None, wire.Done, _VERSIONS),
    Operation("POST", "promote", "admin", versions.promote, "Make the candidate the model in use", None, wire.Done,
              _VERSIONS),
    Operation("GET", "copy", "admin", standby.copy, "Where the model is copied to, and the last copied record", None,
              admin_wire.CopyAnswer),
    Operation("POST", "takeover", "admin", standby.take_over, "Make this standby the owner of the copy", None,
              wire.Done, {409: "This service is not a standby."}),
]  # fmt: skip

# Operations on the service itself, with paths below /v1. Their handlers take the service and the call.
SERVICE_OPERATIONS = [
    Operation("GET", "limits", "admin", service_admin.limits, "The limits that can be changed at run time", None,
              admin_wire.LimitsAnswer),
    Operation("PUT", "limits", "admin", service_admin.set_limits, "Change limits until the service stops",
              admin_wire.LimitsRequest, admin_wire.LimitsAnswer, {507: "The disk is full."}),
    Operation("GET", "audit", "admin", service_admin.audit, "The audit log: who changed or downloaded what", None,
              admin_wire.AuditAnswer),
]  # fmt: skip

# Other paths of the service itself (pages, probes, metrics), all for GET: path → the required role (None: no API key is
# required), and a summary.
SERVICE_PATHS: dict[str, tuple[str | None, str]] = {
    "/": (None, "The live page"),
    "/docs": (None, "This list, as a page"),
    "/openapi.json": (None, "This list, for programs"),
    "/healthz": (None, "200 while the process responds"),
    "/readyz": (None, "200 if every model can learn, otherwise 503 with the reason"),
    "/metrics": ("predict", "Metrics for Prometheus"),
    "/v1/models": ("predict", "The names of the models"),
}
