"""Refusals as HTTP: the same words that a Python caller reads, a status, and a kind for programs."""

from __future__ import annotations

import msgspec
from sklearn.exceptions import NotFittedError

from budgetron.durable import DiskRefused, KeyReused, NothingLearned, StaleOwner
from budgetron.errors import InputError, refusal
from budgetron.service.wire import Problem, ProblemAnswer, encode


class Refused(Exception):
    """A request that is refused, with what is said to the client."""

    def __init__(self, status: int, kind: str, message: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers or []

    def body(self) -> bytes:
        return encode(ProblemAnswer(Problem(self.kind, self.message)))


def refused_of(error: Exception) -> Refused | None:
    """The refusal that stands for an exception of the library; None for what nobody foresaw."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Refused(400, "malformed", refusal("body", "it", "of the form that /docs shows", _tidy(error)))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Refused(400, "malformed", refusal("body", "it", "JSON", _tidy(error)))
    if isinstance(error, KeyReused):
        return Refused(409, "key_reused", str(error))
    if isinstance(error, StaleOwner):
        return Refused(503, "not_owner", str(error))
    if isinstance(error, DiskRefused):
        return Refused(507, "disk", str(error))
    if isinstance(error, NotFittedError | NothingLearned):
        return Refused(409, "nothing_learned", str(error))
    if isinstance(error, InputError):
        return Refused(422, "refused", str(error))
    return None


def _tidy(error: Exception) -> str:
    """The parser's words without their full stop, which the sentence has."""
    if isinstance(error, RecursionError):
        return "something nested too deeply"
    return str(error).rstrip(".")[:300]
