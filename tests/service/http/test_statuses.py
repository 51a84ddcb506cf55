"""Every exception class has its HTTP status: 4xx for wrong input, 5xx for failures and for what shards cannot do."""

from __future__ import annotations

import errno
import re

import pytest
from sklearn.exceptions import NotFittedError

import budgetron
from budgetron.checks.case import LawBroken
from budgetron.data import DataCorrupt, DataUnavailable
from budgetron.distributed import InShards, Unfinished
from budgetron.distributed.workers.worker import NotTheOwner
from budgetron.distributed.workers.worker_group import WorkersLost
from budgetron.distributed.workers.worker_pool import WorkerLost
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
    BadLineError,
    BudgetronError,
    Closed,
    InputError,
    InputFileMissing,
    InputTypeError,
    MissingExtra,
    ModelFileError,
    OperationalError,
    StorageError,
    TooFewBytes,
    UnknownLabel,
    UnknownTask,
    WorkerError,
)
from budgetron.io.formats.line_reader import InvalidLine
from budgetron.persist.names import NoJSON
from budgetron.service.consuming.consumption import BrokerFailed
from budgetron.service.http.api_keys import KeysUnreadable
from budgetron.service.http.problems import _REMEDIES, HTTPProblem, in_json_terms, problem_of
from budgetron.service.model.writer import Busy, WriterEnded

STATUSES = {  # class → status, and whether the response has Retry-After
    InputError: (422, False),
    InputTypeError: (422, False),
    InputFileMissing: (422, False),
    BadLineError: (422, False),
    ModelFileError: (422, False),
    TooFewBytes: (422, False),
    UnknownLabel: (422, False),
    UnknownTask: (422, False),
    KeyReused: (409, False),
    NothingLearned: (409, False),
    NotInLog: (409, False),
    NoVersion: (404, False),
    NotFittedError: (409, False),
    InShards: (501, False),
    DiskRefused: (507, True),
    DamagedLog: (500, False),
    DirectoryGone: (503, True),
    MissingExtra: (500, False),
    StorageError: (503, True),
    AlreadyOwned: (503, True),
    StaleOwner: (503, True),
    StandbyOnly: (503, True),
    NotCopied: (503, True),
    WorkerError: (503, True),
    WorkersLost: (503, True),
    NotTheOwner: (503, True),
    WorkerLost: (503, True),
    Closed: (503, True),
    Busy: (503, True),
    WriterEnded: (503, True),
    Unfinished: (503, True),
    KeysUnreadable: (503, True),
    DataUnavailable: (503, True),
    DataCorrupt: (503, True),
    BrokerFailed: (503, True),
    OperationalError: (503, True),
    MemoryError: (503, True),
}


@pytest.mark.parametrize(("kind", "expected"), STATUSES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_each_exception_class_has_its_status(kind, expected):
    answer = problem_of(kind("words"))
    assert (answer.status, "retry-after" in answer.headers) == expected
    assert answer.message == "words"
    assert (answer.status >= 500) == issubclass(kind, OperationalError | MemoryError | InShards)


def _subclasses(kind):
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def test_the_table_names_every_class_that_a_handler_may_raise():
    classes = {kind for kind in _subclasses(BudgetronError) if kind.__module__.startswith("budgetron.")}
    client = {kind for kind in classes if kind.__module__.startswith("budgetron.client.")}  # raised by the client
    private = {kind for kind in classes if kind.__name__.startswith("_")}
    # The table need not name four more classes: HTTPProblem has its own status, only `budgetron.checks` raises
    # LawBroken, callers of `encode_name` catch NoJSON, and readers of files catch InvalidLine.
    assert classes - client - private - {HTTPProblem, InvalidLine, LawBroken, NoJSON} <= STATUSES.keys()


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EFBIG, 507), (errno.EIO, 503)])
def test_an_error_of_the_system_is_5xx_and_hides_the_path(number, status):
    answer = problem_of(OSError(number, "words of the system", "/secret/place"))
    assert answer.status == status and "secret" not in answer.message
    assert answer.headers


def test_an_internal_error_reveals_nothing_to_the_client():
    assert problem_of(RuntimeError("a bug")) is None


def _messages_of_learners():
    """Call learners with arguments that requests can contain, and yield the messages of the errors."""
    model = budgetron.RandomBudgetPerceptron(budget=5)
    for arguments in (
        {"X": [[1.0, 2.0]], "y": ["only"]}, {"X": [[1.0, float("nan")]], "y": [1]}, {"X": [[1.0, 2.0]], "y": [1.5]},
        {"X": [[1.0, 2.0]], "y": [1], "sample_weight": [2.0]}, {"X": [[1.0, 2.0]], "y": [1, 0]},
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            model.partial_fit(**arguments)
        yield str(error.value)
    model.partial_fit([[1.0, 2.0], [2.0, 1.0]], ["a", "b"], tasks=["ann", "bob"])
    for arguments in (
        {"X": [[1.0, 2.0]], "y": ["a"]}, {"X": [[1.0, 2.0]], "y": ["c"], "tasks": ["ann"]},
        {"X": [[1.0]], "y": ["a"], "tasks": ["ann"]},
        {"X": [[1.0, 2.0]], "y": ["a"], "tasks": ["ann"], "classes": ["a", "c"]},
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            model.partial_fit(**arguments)
        yield str(error.value)
    # Three errors: offsets for a learner that accepts none, offsets only in the first call, and only in the second.
    none, given = {}, {"offset": [0.5]}
    for learner, first, second in (
        (budgetron.Forgetron(5), none, given),
        (budgetron.Budgetron(), given, none),
        (budgetron.Budgetron(), none, given),
    ):
        doubled = {name: values * 2 for name, values in first.items()}
        learner.partial_fit([[1.0, 2.0], [2.0, 1.0]], ["a", "b"], **doubled)
        with pytest.raises(InputError) as error:
            learner.partial_fit([[1.0, 2.0]], ["a"], **second)
        yield str(error.value)


def test_messages_over_http_name_json_fields():
    messages = list(_messages_of_learners())
    shown = [in_json_terms(message) for message in messages]
    for text in shown:
        assert re.search(r': "(features|label|task|weight|classes|offset)" must be ', text), text
        assert not re.search(r"\w=|partial_fit|\bfit again|\btasks=", text), text
    # Every remedy must still occur in a message: if its wording changed, `in_json_terms` would no longer translate it.
    used = [remedy for remedy in _REMEDIES if any(remedy in message for message in messages)]
    assert used == list(_REMEDIES)
