"""The exceptions of the package, and the wording of their messages.

    BudgetronError              the base class: `except BudgetronError` catches every exception class of this package
        InputError              the call was wrong; retrying it does not help (also a ValueError)
        OperationalError        the call was right, but a disk, a worker or the network failed, or a package is missing

Messages have three parts: who and which parameter; what is accepted; what was passed, and the remedy.

    Budgetron: budget must be an integer >= 1, a size such as "64 MiB", or None for no limit; got 0.

Python, the command line and HTTP clients get the same messages, with two differences. Where Python names an argument,
the command line names an option, and HTTP names a JSON field. Python code and values in a message, such as a remedy or
None, are replaced by what a user would write there. Over HTTP an `InputError` becomes a 4xx status, and an
`OperationalError` a 5xx status. On the command line an `InputError` ends the process with exit status 2, and an
`OperationalError` with 3, unless the command reports it itself (`verify` exits with 1).
"""

from __future__ import annotations

import math
import numbers
from importlib import import_module
from typing import Any, TypeGuard


class BudgetronError(Exception):
    """The base class of all exception classes of this package."""


class InputError(BudgetronError, ValueError):
    """A value that is not accepted. The call has not changed the model.

    Calls that learn from a stream, such as `evaluate.progressive`, are an exception: when they raise an `InputError`,
    for example a `BadLineError`, the model may have learned the examples before it.
    """


class InputTypeError(InputError, TypeError):
    """A value of a type that is not accepted."""


class UnknownTask(InputError, KeyError):
    """A task that is not in the fixed list of tasks of an explicit graph."""

    __str__ = ValueError.__str__  # KeyError.__str__ would put the message in quotes


class UnknownLabel(InputError):
    """A label outside the known classes."""


class BadLineError(InputError):
    """A line of a file that cannot be parsed. The rows before it have already been returned."""


class TooFewBytes(InputError):
    """A byte budget that is too small for any model; `needed` is a budget that suffices, close to the smallest one."""

    needed: int = 0


class ModelFileError(InputError):
    """A model file that is damaged, too large, of another format, or inconsistent.

    This is an `InputError`, not an `OperationalError`: the caller chose the file, and retrying does not help.
    """


class InputFileMissing(InputError, FileNotFoundError):
    """An input file that does not exist."""


class OperationalError(BudgetronError):
    """The call was right, but the environment failed.

    The call may have had an effect, for example if only its answer was lost: see the class and the message.
    """


class StorageError(OperationalError):
    """A directory that cannot be read or written, or that another process owns now."""


class WorkerError(OperationalError):
    """A worker of a distributed model does not respond, or there are too few workers."""


class Closed(OperationalError):
    """A durable or distributed model was used after its host was closed, or the service is stopping."""


class MissingExtra(OperationalError, ImportError):
    """An optional package that is not installed."""


def import_extra(who: str, module: str, extra: str) -> Any:
    """Import an optional module, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            error_message(
                who, module, "installed", "no such package", f"Install it with: pip install 'budgetron[{extra}]'"
            )
        ) from None


def shown(value: Any, limit: int = 80) -> str:
    """Return the repr of a value, shortened to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def error_message(who: str, parameter: str, accepted: str, got: str, remedy: str = "") -> str:
    """Return an error message: who and which parameter, what is accepted, what was passed, and the remedy."""
    sentence = f"{who}: {parameter} must be {accepted}; got {got}."
    return f"{sentence} {remedy}" if remedy else sentence


def input_error(who: str, parameter: str, accepted: str, got: str, remedy: str = "") -> InputError:
    """Return an `InputError` with a three-part message, for the caller to raise."""
    return InputError(error_message(who, parameter, accepted, got, remedy))


def input_type_error(who: str, parameter: str, accepted: str, got: str, remedy: str = "") -> InputTypeError:
    """Return an `InputTypeError` with a three-part message, for the caller to raise."""
    return InputTypeError(error_message(who, parameter, accepted, got, remedy))


def is_real(value: Any) -> TypeGuard[float]:
    """Return whether the value is a finite real number that fits into a float. A bool does not count as a number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer or a fraction beyond the range of floats
        return False


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether the value is an integer. A bool does not count as an integer."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
