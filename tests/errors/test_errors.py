"""Every exception of the package derives from BudgetronError, and an operational error is never a ValueError."""

from __future__ import annotations

import errno
import importlib
import pickle
import pkgutil
from fractions import Fraction

import pytest
from click.testing import CliRunner

import budgetron
from budgetron import Budgetron, errors
from budgetron.cli import main
from budgetron.client import ServiceFailed, ServiceRefused
from budgetron.client.responses import error_of
from budgetron.errors import (
    BudgetronError,
    InputError,
    InputFileMissing,
    MissingExtra,
    OperationalError,
    StorageError,
    WorkerError,
    is_real,
)
from budgetron.io import read
from budgetron.kernels import Linear


def exception_classes():
    """Every exception class that a module of the package defines."""
    classes = set()
    for module in pkgutil.walk_packages(budgetron.__path__, "budgetron."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError as missing:  # an extra that is not installed
            assert not str(missing).startswith("cannot import name"), missing
            continue
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == module.name:
                classes.add(value)
    return classes


CLASSES = sorted(exception_classes(), key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def test_exception_classes_are_found_in_all_packages():
    parts = {kind.__module__.split(".")[1] for kind in CLASSES}
    assert {"errors", "durable", "distributed", "client", "data", "io", "persist"} <= parts


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_class_derives_from_budgetron_error_and_only_input_errors_are_value_errors(kind):
    assert issubclass(kind, BudgetronError)
    assert issubclass(kind, InputError) == issubclass(kind, ValueError)
    assert not (issubclass(kind, OperationalError) and issubclass(kind, ValueError))


@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400), float("nan"), float("inf"), True, "1"],
                         ids=["integer", "negative", "fraction", "nan", "infinity", "bool", "text"])  # fmt: skip
def test_what_is_not_a_finite_float_is_not_accepted_as_a_number(value):
    assert not is_real(value)
    with pytest.raises(InputError, match="Linear: bias must be"):
        Linear(bias=value)


OPERATIONAL = {
    "AlreadyOwned", "StaleOwner", "DamagedLog", "DiskRefused", "StorageError", "WorkerError", "WorkersLost",
    "WorkerLost", "NotTheOwner", "DataUnavailable", "DataCorrupt", "MissingExtra", "ServiceFailed", "Unreachable",
    "Closed",
}  # fmt: skip


def test_disk_workers_network_data_and_packages_are_operational():
    by_name = {kind.__name__: kind for kind in CLASSES}
    assert by_name.keys() >= OPERATIONAL
    assert all(issubclass(by_name[name], OperationalError) for name in OPERATIONAL)
    assert issubclass(by_name["DiskRefused"], OSError)
    assert issubclass(by_name["Unreachable"], ConnectionError)
    assert issubclass(by_name["MissingExtra"], ImportError)


def test_the_example_of_a_message_is_the_message():
    with pytest.raises(InputError) as caught:
        Budgetron(budget=0).partial_fit([[1.0], [0.0]], [0, 1])
    assert f"\n    {caught.value}\n" in errors.__doc__


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if issubclass(kind, OperationalError | InputError)],
                         ids=lambda kind: kind.__name__)  # fmt: skip
def test_an_exception_can_be_pickled_to_leave_a_worker_process(kind):
    error = kind(503, "busy", "words") if issubclass(kind, ServiceFailed | ServiceRefused) else kind("words")
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind and str(copied) == str(error) == "words"
    assert vars(copied) == vars(error)


def test_a_missing_file_is_an_input_error_and_a_file_not_found_error(tmp_path):
    with pytest.raises(InputFileMissing, match="No such file") as caught:
        list(read(tmp_path / "nothing.csv"))
    assert isinstance(caught.value, InputError) and isinstance(caught.value, FileNotFoundError)


def test_a_disk_that_fails_while_a_file_is_read_is_operational():
    class Failing:
        name = "x.csv"

        def __init__(self):
            self.pieces = [b"a,label\n1,0\n2,1\n"]

        def read(self, size=-1):
            if self.pieces:
                return self.pieces.pop()
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StorageError, match="Input/output error"):
        list(read(Failing()))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("wrong"), 2),
        (MissingExtra("missing"), 3),
        (WorkerError("lost"), 3),
        (StorageError("full"), 3),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x.csv"), 2),
        (OSError(errno.ENOSPC, "No space left on device", "x.csv"), 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_exception_has_its_exit_code(monkeypatch, error, code):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr("click.Command.invoke", failing)
    result = CliRunner().invoke(main, ["datasets", "list"])
    assert result.exit_code == code and result.output.startswith("Error: ") and result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ServiceRefused), (401, ServiceRefused), (409, ServiceRefused), (422, ServiceRefused), (408, ServiceFailed),
     (429, ServiceFailed), (500, ServiceFailed), (502, ServiceFailed), (503, ServiceFailed), (507, ServiceFailed)],
)  # fmt: skip
def test_the_client_distinguishes_wrong_requests_from_failures(status, kind):
    error = error_of(status, b'{"error":{"kind":"some","message":"words"}}')
    assert type(error) is kind and (error.status, error.kind, str(error)) == (status, "some", "words")
