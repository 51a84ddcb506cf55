"""What comes back from a service: predictions, acknowledgements, refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.errors import BudgetronError, InputError, OperationalError


class Prediction(msgspec.Struct, frozen=True):
    """A prediction; `id` is there where it was to be remembered, `probabilities` where the model has them."""

    label: Any
    margin: Any
    probabilities: dict[str, float] | None = None
    id: str | None = None


class Answered(msgspec.Struct, frozen=True):
    """An acknowledgement: on disk as record `position`. `margins` are those before learning."""

    position: int
    learned: int
    repeated: bool
    margins: list[Any]


class ServiceError(BudgetronError):
    """The service did not do it, in the words that it gave; `status` is HTTP's, `kind` is for programs."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.kind, str(self))


class ServiceRefused(ServiceError, InputError):
    """The request was wrong (4xx): sent again, it would be refused again."""


class ServiceFailed(ServiceError, OperationalError):
    """The service could not do it now (5xx, 408 or 429), however often it was tried. The request may be right."""


class Unreachable(OperationalError, ConnectionError):
    """No answer, however often it was tried."""


class _Problem(msgspec.Struct):
    kind: str = "unknown"
    message: str = ""


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


def error_of(status: int, content: bytes) -> ServiceError:
    """The error in an answer."""
    try:
        problem = msgspec.json.decode(content, type=_ProblemAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):  # from something between us and the service
        problem = _Problem("unknown", f"service: an answer of status {status}, and no word of why")
    kind = ServiceFailed if status >= 500 or status in (408, 429) else ServiceRefused
    return kind(status, problem.kind, problem.message)
