"""The exceptions of the package, and the wording of their messages.

    BudgetronError              the root: `except BudgetronError` catches everything that this package raises
        InputError              the call was wrong, and a retry does not help (a ValueError)
        OperationalError        the call was right, but a disk, a worker, the network or a package failed

Messages have three parts: who and which parameter; what is accepted; what came, and the remedy.

    Budgetron: budget must be an integer >= 1 or a size such as "64 MiB"; got 0.

The same words reach the Python caller, the command line and the HTTP client. Over HTTP an `InputError` is a 4xx status
and an `OperationalError` a 5xx; on the command line they exit with 2 and 3.
"""

from __future__ import annotations

import math
import numbers
from importlib import import_module
from typing import Any, TypeGuard


class BudgetronError(Exception):
    """The root of every exception that this package raises."""


class InputError(BudgetronError, ValueError):
    """A value that is not accepted. The model is as it was before the call."""


class InputTypeError(InputError, TypeError):
    """A value of a type that is not accepted."""


class UnknownTask(InputError, KeyError):
    """A task that an explicit graph does not name."""

    __str__ = ValueError.__str__  # KeyError would quote the whole sentence


class UnknownLabel(InputError):
    """A label outside the known classes."""


class BadLineError(InputError):
    """A line of a file that cannot be used; the rows before it were returned."""


class TooFewBytes(InputError):
    """A byte budget that is too small for any model; `needed` is the smallest budget that suffices."""

    needed: int = 0


class ModelFileError(InputError):
    """A model file that is damaged, too large, of another format, or inconsistent.

    It is wrong input and not an operational failure: the caller chose the file, and a retry does not help.
    """


class InputFileMissing(InputError, FileNotFoundError):
    """A path to read from at which there is no file."""


class OperationalError(BudgetronError):
    """The call was right, but the environment failed. The call had no effect unless the message says otherwise."""


class StorageError(OperationalError):
    """A directory or disk that cannot be read or written, or no longer belongs to this process."""


class WorkerError(OperationalError):
    """A worker of a distributed model does not respond, or there are too few workers."""


class Closed(OperationalError):
    """A model or connection was used after it was closed, as happens to calls in progress while a process stops."""


class MissingExtra(OperationalError, ImportError):
    """An optional package that is not installed."""


def import_extra(who: str, module: str, extra: str) -> Any:
    """Import an optional module, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            refusal(who, module, "installed", "no such package", f"Install it with: pip install 'budgetron[{extra}]'")
        ) from None


def shown(value: Any, limit: int = 80) -> str:
    """Return the repr of a value, shortened to fit on one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def refusal(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> str:
    """Return an error message: who and which parameter, what is accepted, what came, and the remedy."""
    sentence = f"{who}: {parameter} must be {accepted}; got {came}."
    return f"{sentence} {remedy}" if remedy else sentence


def refuse(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> InputError:
    """Return an `InputError` with a three-part message, for the caller to raise."""
    return InputError(refusal(who, parameter, accepted, came, remedy))


def refuse_type(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> InputTypeError:
    """Return an `InputTypeError` with a three-part message, for the caller to raise."""
    return InputTypeError(refusal(who, parameter, accepted, came, remedy))


def is_real(value: Any) -> TypeGuard[float]:
    """Whether the value is a finite real number; a bool is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether the value is an integer; a bool is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
