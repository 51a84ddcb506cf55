"""The exceptions of the package, and the wording of their messages.

    BudgetronError              the root: `except BudgetronError` catches everything that this package raises
        InputError              the call was wrong, and would be wrong again (a ValueError)
        OperationalError        the call was right, but a disk, a worker, the network or a package failed it

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
    """A value that is not accepted. The model that raised it is as it was before the call."""


class InputTypeError(InputError, TypeError):
    """A value of a kind that is not accepted."""


class UnknownTask(InputError, KeyError):
    """A task that an explicit graph does not name."""

    __str__ = ValueError.__str__  # KeyError would quote the whole sentence


class UnknownLabel(InputError):
    """A label outside the known classes."""


class TooFewBytes(InputError):
    """A byte budget that is too small for any model; `needed` is what the smallest takes under such a budget."""

    needed: int = 0


class ModelFileError(InputError):
    """A model file that is damaged, too large, of another format, or lies about what it holds.

    Wrong input, not an operational failure: the caller chose the file, and reading it again does not help.
    """


class InputFileMissing(InputError, FileNotFoundError):
    """A path to read from where there is no file."""


class OperationalError(BudgetronError):
    """The call was right, but something outside it failed. Nothing of the call was done unless the message says so."""


class StorageError(OperationalError):
    """A directory or disk that cannot be read or written, or no longer belongs to this process."""


class WorkerError(OperationalError):
    """A worker of a distributed model does not answer, or there are too few of them."""


class Closed(OperationalError):
    """Something was used after it was closed, as happens to calls that are under way while a process stops."""


class MissingExtra(OperationalError, ImportError):
    """A package that only one part of the library needs, and that is not installed."""


def import_extra(who: str, module: str, extra: str) -> Any:
    """A module that an extra brings, imported on use."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            refusal(who, module, "installed", "no such package", f"pip install 'budgetron[{extra}]' brings it.")
        ) from None


def shown(value: Any, limit: int = 80) -> str:
    """What came, short enough for one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def refusal(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> str:
    """The sentence: who and which parameter, what is accepted, what came, and the remedy."""
    sentence = f"{who}: {parameter} must be {accepted}; got {came}."
    return f"{sentence} {remedy}" if remedy else sentence


def refuse(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> InputError:
    """An `InputError` in three parts, to be raised by the caller."""
    return InputError(refusal(who, parameter, accepted, came, remedy))


def refuse_type(who: str, parameter: str, accepted: str, came: str, remedy: str = "") -> InputTypeError:
    """An `InputTypeError` in three parts, to be raised by the caller."""
    return InputTypeError(refusal(who, parameter, accepted, came, remedy))


def is_real(value: Any) -> TypeGuard[float]:
    """Whether the value is a finite real number; a bool is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether the value is an integer; a bool is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
