"""Exceptions as HTTP: the same words that a Python caller reads, a status, and a kind for programs.

Wrong input is 4xx. An operational failure is 5xx, with `Retry-After` where trying again may help, and never 422.
"""

from __future__ import annotations

import errno

import msgspec
from sklearn.exceptions import NotFittedError

from budgetron.durable import (
    AlreadyOwned,
    DamagedLog,
    DirectoryGone,
    DiskRefused,
    KeyReused,
    NothingLearned,
    StaleOwner,
)
from budgetron.errors import (
    BudgetronError,
    Closed,
    InputError,
    MissingExtra,
    OperationalError,
    StorageError,
    WorkerError,
    refusal,
)
from budgetron.service.wire import Problem, ProblemAnswer, encode


class Refused(BudgetronError):
    """A request that is refused, with what is said to the client."""

    def __init__(self, status: int, kind: str, message: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers or []

    def body(self) -> bytes:
        return encode(ProblemAnswer(Problem(self.kind, self.message)))


_RETRY = [(b"retry-after", b"1")]

# Class, status, kind, and whether the same request may succeed later. The first that fits counts.
STATUSES: list[tuple[type[BaseException], int, str, bool]] = [
    (KeyReused, 409, "key_reused", False),
    (NothingLearned, 409, "nothing_learned", False),
    (NotFittedError, 409, "nothing_learned", False),
    (InputError, 422, "refused", False),
    (DiskRefused, 507, "disk", True),
    (DamagedLog, 500, "damaged", False),  # only a backup helps
    (StaleOwner, 503, "not_owner", True),  # another owner has the directory: the next try may reach that one
    (AlreadyOwned, 503, "not_owner", True),
    (DirectoryGone, 503, "directory_gone", True),
    (StorageError, 503, "storage", True),
    (WorkerError, 503, "workers", True),
    (Closed, 503, "stopping", True),
    (MissingExtra, 500, "missing_package", False),
    (OperationalError, 503, "unavailable", True),
    (MemoryError, 503, "memory", True),
]
REASONS = {  # kind → what /readyz says of a model that cannot learn
    "disk": "disk: it is full, or cannot be written",
    "damaged": "damaged: the log is not as it was written",
    "not_owner": "not_owner: another process has taken the directory over",
    "directory_gone": "directory_gone: the files of the model were removed or replaced",
    "storage": "storage: the log cannot be used",
    "workers": "workers: a shard has no worker",
    "unfinished": "unfinished: shards still have to learn what was written",
    "writer": "writer: its thread had ended, and was started again",
}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def refused_of(error: Exception) -> Refused | None:
    """The HTTP answer that stands for an exception; None for an internal error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Refused(400, "malformed", refusal("body", "it", "of the form that /docs shows", _tidy(error)))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Refused(400, "malformed", refusal("body", "it", "JSON", _tidy(error)))
    for kind, status, name, again in STATUSES:
        if isinstance(error, kind):
            return Refused(status, name, str(error) or kind.__name__, _RETRY if again else None)
    if isinstance(error, OSError):  # of a file that the service itself writes, such as a backup on its way
        status, name = (507, "disk") if error.errno in _FULL else (503, "storage")
        message = f"service: the system failed: {error.strerror or type(error).__name__}."  # without the path
        return Refused(status, name, message, _RETRY)
    return None


def _tidy(error: Exception) -> str:
    """The parser's words without their full stop, which the sentence has."""
    if isinstance(error, RecursionError):
        return "something nested too deeply"
    return str(error).rstrip(".")[:300]
