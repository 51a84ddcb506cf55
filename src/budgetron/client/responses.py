"""The responses of the service as Python objects, and the exceptions for its errors.

Both clients decode responses into these classes. Unknown fields are ignored, so that a client works with a newer
service.
"""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.errors import BudgetronError, InputError, OperationalError


class Prediction(msgspec.Struct, frozen=True):
    """A prediction: label and margin. Fields that do not apply are None.

    `probabilities` is set if the model computes them. `id` is set if the service remembers the prediction for feedback.

    `reasons` is set if the request asked for reasons: a dict with label, margin, terms, rest, remainder, nearest.

    `ask` is set if the request had `ask`. It says whether the label of this example is worth asking for.

    `warning` is a sentence. It says that the model does not know the names of some features, or that most of the
    model's features are missing.

    If the model has an operating point, `decision` is a label; or `abstain` is true, and a person should decide.

    `version` is set if a candidate version answered.
    """

    label: Any
    margin: Any
    probabilities: dict[str, float] | None = None
    id: str | None = None
    reasons: dict[str, Any] | None = None
    ask: bool | None = None
    warning: str | None = None
    decision: Any = None
    abstain: bool = False
    version: str | None = None


class Answered(msgspec.Struct, frozen=True):
    """The acknowledgement of learned examples: they are on disk as record `position` of the log.

    `learned` is the number of examples, and `margins` are their margins before learning. `repeated` is true if the
    service had learned the examples before, under the same idempotency key. Then it did not learn them again.
    """

    position: int
    learned: int
    repeated: bool
    margins: list[Any]


class ServiceError(BudgetronError):
    """An error response of the service: its message, its HTTP `status`, and the `kind` of the error for programs."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.kind, str(self))


class ServiceRefused(ServiceError, InputError):
    """The request was wrong (4xx, except 408 and 429). A retry would fail in the same way."""


class ServiceFailed(ServiceError, OperationalError):
    """The service failed (5xx, 408 or 429). The request itself may be correct.

    The client has retried the request, unless a retry cannot help, as after an internal error (500).
    """


class Unreachable(OperationalError, ConnectionError):
    """There was no response to the last attempt, after all retries."""


class _ErrorFields(msgspec.Struct):
    kind: str = "unknown"
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _ErrorFields


def error_of(status: int, content: bytes) -> ServiceError:
    """The exception for an error response."""
    try:
        fields = msgspec.json.decode(content, type=_ErrorBody).error
    except (msgspec.DecodeError, UnicodeDecodeError):  # for example from a proxy in front of the service
        message = f"service: status {status} without an error message. Check proxies between client and service."
        fields = _ErrorFields("unknown", message)
    exception = ServiceFailed if status >= 500 or status in (408, 429) else ServiceRefused
    return exception(status, fields.kind, fields.message)
