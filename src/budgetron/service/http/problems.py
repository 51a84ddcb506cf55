"""Maps exceptions to HTTP responses. No other module decides the status of an exception.

The messages are those of the Python library, with JSON fields instead of arguments. Wrong input is 4xx. An operation
that a model in shards does not support is 501. An operational failure is 5xx, with `Retry-After` if a retry may help.
"""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

import msgspec
from sklearn.exceptions import NotFittedError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from budgetron.distributed import InShards, Unfinished
from budgetron.durable import (
    AlreadyOwned,
    DamagedLog,
    DirectoryGone,
    DiskRefused,
    KeyReused,
    NotCopied,
    NothingLearned,
    NotInLog,
    StaleOwner,
    StandbyOnly,
)
from budgetron.durable.versions import NoVersion
from budgetron.errors import (
    BudgetronError,
    Closed,
    InputError,
    MissingExtra,
    OperationalError,
    StorageError,
    WorkerError,
    error_message,
)
from budgetron.learners.input.validation import NAME_THE_TASKS
from budgetron.service.http.api_keys import KeysUnreadable
from budgetron.service.http.wire import Problem, ProblemAnswer, encode, reply
from budgetron.service.model.writer import Busy, WriterEnded

RETRY = {"retry-after": "1"}
CLOSE = {"connection": "close"}


class HTTPProblem(BudgetronError):
    """A request that is rejected, with the status, the kind for programs, and the message for people."""

    def __init__(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers or {}

    def response(self) -> Response:
        return reply(encode(ProblemAnswer(Problem(self.kind, self.message))), self.status, headers=self.headers)


class Status(NamedTuple):
    status: int
    kind: str
    may_retry: bool


# The first class that fits counts, so subclasses come before their base class.
STATUSES: list[tuple[type[BaseException], Status]] = [
    (KeyReused, Status(409, "key_reused", False)),
    (NothingLearned, Status(409, "nothing_learned", False)),
    (NotFittedError, Status(409, "nothing_learned", False)),
    (NotInLog, Status(409, "not_in_log", False)),
    (NoVersion, Status(404, "no_version", False)),
    (InShards, Status(501, "in_shards", False)),
    (InputError, Status(422, "refused", False)),
    (DiskRefused, Status(507, "disk", True)),
    (DamagedLog, Status(500, "damaged", False)),  # a retry cannot help: the files have to be restored or repaired
    (StaleOwner, Status(503, "not_owner", True)),  # the retry may reach the new owner
    (StandbyOnly, Status(503, "standby", True)),
    (NotCopied, Status(503, "not_copied", True)),
    (AlreadyOwned, Status(503, "not_owner", True)),
    (DirectoryGone, Status(503, "directory_gone", True)),
    (StorageError, Status(503, "storage", True)),
    (Unfinished, Status(503, "unfinished", True)),
    (WorkerError, Status(503, "workers", True)),
    (Busy, Status(503, "busy", True)),
    (WriterEnded, Status(503, "writer", True)),
    (Closed, Status(503, "stopping", True)),
    (MissingExtra, Status(500, "missing_package", False)),
    (KeysUnreadable, Status(503, "keys", True)),
    (OperationalError, Status(503, "unavailable", True)),
    (MemoryError, Status(503, "memory", True)),
]
REASONS = {  # why a model cannot learn, for /readyz; without file paths, because /readyz needs no API key
    "disk": "disk: it is full or not writable",
    "damaged": "damaged: the content of the log has changed on disk",
    "not_owner": "not_owner: another process has taken over the directory or its copy",
    "standby": "standby: it follows a copy and has not taken over",
    "not_copied": "not_copied: the copy cannot be written",
    "directory_gone": "directory_gone: the files of the model were removed or replaced",
    "storage": "storage: the log cannot be used",
    "workers": "workers: a shard has no worker",
    "unfinished": "unfinished: shards still have to learn logged requests",
    "writer": "writer: the writer thread had ended and was restarted",
    "recovering": "recovering: the log is being replayed",
}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def problem_of(error: Exception) -> HTTPProblem | None:
    """The HTTP response to an exception; None for an internal error."""
    if isinstance(error, HTTPProblem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return HTTPProblem(400, "malformed", _invalid_field(_tidy(error)))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return HTTPProblem(400, "malformed", error_message("request", "the body", "JSON", _tidy(error)))
    for kind, answer in STATUSES:
        if isinstance(error, kind):
            message = in_json_terms(str(error)) or kind.__name__
            return HTTPProblem(answer.status, answer.kind, message, RETRY if answer.may_retry else None)
    if isinstance(error, HTTPException):  # raised by Starlette's own routing
        return HTTPProblem(error.status_code, "unknown_path", error.detail)
    if isinstance(error, OSError):  # from a file that the service itself writes, such as a backup to download
        status, name = (507, "disk") if error.errno in _DISK_FULL else (503, "storage")
        # `strerror` does not contain the path, `str(error)` does.
        message = f"service: a file operation failed: {error.strerror or type(error).__name__}."
        return HTTPProblem(status, name, message, RETRY)
    return None


# Argument of a Python call, as messages of learners and hosts name it → the field of a request.
_FIELDS = {"X": "features", "x": "features", "y": "label", "tasks": "task", "task": "task", "sample_weight": "weight",
           "classes": "classes", "key": "key", "offset": "offset", "position": "position", "row": "row"}  # fmt: skip
_RECORD = re.compile(r"^Columns\.encode: record (\d+): ")
_ARGUMENT = re.compile(r"^(\w+): (" + "|".join(_FIELDS) + r") must be ")
_REMEDIES = {  # remedies that are Python code, and their counterparts over HTTP
    NAME_THE_TASKS: 'Add "task" to every example.',
    "Name all classes in the first call with classes=[...], or fit again.":
        'List all labels in "classes" in the first request of a new model.',
    "Name all classes in the first call with classes=[...].":
        'Send the first request as JSON instead of NDJSON, and list all labels in "classes".',
    "Pass offset= in every call.": 'Add "offset" to every example.',
    "Train a new model with offset= from its first example on.": 'Begin a new model with "offset" in every example.',
    "Budgetron can.": 'Leave out "offset", or serve a Budgetron.',
    "Budgetron takes weights.": 'Leave out "weight", or serve a Budgetron.',
}  # fmt: skip


def in_json_terms(message: str) -> str:
    """Name the JSON field in a message about an argument, and give the remedy that fits a request."""
    message = _ARGUMENT.sub(lambda match: f'{match[1]}: "{_FIELDS[match[2]]}" must be ', message)
    message = _RECORD.sub(r'request: "features" of example \1: ', message)
    for python, json in _REMEDIES.items():
        message = message.replace(python, json)
    return message.replace("; got None.", "; got null.")


def fault() -> HTTPProblem:
    """The response to an internal error."""
    return HTTPProblem(500, "fault", "service: internal error; details are in the server log.")


# Messages of msgspec about JSON of the wrong form, and its names of types.
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$\.?(.*)`)?")
_MISSING_FIELD = re.compile(r"Object missing required field `(.+?)`(?: - at `\$\.?(.*)`)?")
_WRONG_VALUE = re.compile(r"Expected (.+?)(?:, got (.+?))?(?: - at `\$\.?(.*)`)?")
_TYPES = {"bool": "true or false", "int": "an integer", "float": "a number", "str": "a string", "array": "a list",
          "object": "an object", "null": "null"}  # fmt: skip


def _invalid_field(reason: str) -> str:
    """Say which field of the body is wrong, given the message of msgspec."""
    remedy = "The fields are listed at /docs."
    if match := _UNKNOWN_FIELD.fullmatch(reason):
        unknown = f'the unknown field "{match[1]}"{_inside(match[2])}'
        return error_message("request", "the fields", "those listed at /docs", unknown)
    if match := _MISSING_FIELD.fullmatch(reason):
        return f'request: "{match[1]}" must be given{_inside(match[2])}. {remedy}'
    if match := _WRONG_VALUE.fullmatch(reason):
        got = f"; got {_type_words(match[2])}" if match[2] else ""
        field = f'"{match[3]}"' if match[3] else "the body"
        return f"request: {field} must be {_type_words(match[1])}{got}. {remedy}"
    return error_message("request", "the body", "of the form shown at /docs", reason)


def _inside(path: str | None) -> str:
    return f' in "{path}"' if path else ""


def _type_words(types: str) -> str:
    """Translate types such as `int | str | null`."""
    return re.sub(r"`(.+?)`", lambda match: " or ".join(_TYPES.get(one, one) for one in match[1].split(" | ")), types)


def _tidy(error: Exception) -> str:
    """The parser's message without its full stop, since it becomes part of a sentence."""
    if isinstance(error, RecursionError):
        return "something nested too deeply"
    return str(error).rstrip(".")[:300]
