"""The responses of the service as Python objects, and the exceptions for its errors.

Both clients decode into these. Unknown fields are ignored, so that a client works with a newer service.
"""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.errors import BudgetronError, InputError, OperationalError


class Prediction(msgspec.Struct, frozen=True):
    """A prediction. `id` is set if it is remembered for feedback, `probabilities` if the model has them.

    `warning` is a sentence about features whose names the model does not know, or of which most are missing.

    `version` is set if a candidate version answered.

    If the model has an operating point, `decision` is a label, or `abstain` is true: a person should be asked.
    `reasons` is a dict, if they were asked for: label, margin, terms, rest, remainder, nearest.
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
    """The acknowledgement of learned examples: on disk as record `position`, with the margins before learning."""

    position: int
    learned: int
    repeated: bool
    margins: list[Any]


class ServiceError(BudgetronError):
    """An error response: the service's message, with the HTTP `status`, and the error `kind` for programs."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.kind, str(self))


class ServiceRefused(ServiceError, InputError):
    """The request was wrong (4xx). A retry would fail in the same way."""


class ServiceFailed(ServiceError, OperationalError):
    """The service failed (5xx, 408 or 429), after all retries. The request itself may be correct."""


class Unreachable(OperationalError, ConnectionError):
    """The service did not respond, after all retries."""


class _Problem(msgspec.Struct):
    kind: str = "unknown"
    message: str = ""


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


def error_of(status: int, content: bytes) -> ServiceError:
    """The exception for an error response."""
    try:
        problem = msgspec.json.decode(content, type=_ProblemAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):  # for example from a proxy in front of the service
        message = f"service: status {status} without an error message. Check proxies between client and service."
        problem = _Problem("unknown", message)
    kind = ServiceFailed if status >= 500 or status in (408, 429) else ServiceRefused
    return kind(status, problem.kind, problem.message)
