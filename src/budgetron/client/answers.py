"""What comes back from a service: predictions, acknowledgements, refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.errors import InputError


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


class ServiceRefused(InputError):
    """The service refused, in the words that it gave; `status` is HTTP's, `kind` is for programs."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Unreachable(ConnectionError):
    """No answer, however often it was tried."""


class _Problem(msgspec.Struct):
    kind: str = "unknown"
    message: str = ""


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


def refused_of(status: int, content: bytes) -> ServiceRefused:
    """The refusal in an answer."""
    try:
        problem = msgspec.json.decode(content, type=_ProblemAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):  # from something between us and the service
        problem = _Problem("unknown", f"service: an answer of status {status}, and no word of why")
    return ServiceRefused(status, problem.kind, problem.message)
