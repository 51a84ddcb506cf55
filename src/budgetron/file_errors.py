"""Errors about the content of a model file. All are `ModelFileError`s in the package's three-part wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from budgetron.errors import InputError, ModelFileError, error_message

WHO = "load"
PICKLE = "Use pickle or joblib instead (load such a file only from people you trust)."


def invalid(parameter: str, accepted: str, got: str, remedy: str = "") -> ModelFileError:
    """Return an error about something in a file, for the caller to raise."""
    return ModelFileError(error_message(WHO, parameter, accepted, got, remedy))


def require(condition: object, parameter: str, accepted: str, got: str = "other values") -> None:
    """Reject the file unless the condition holds."""
    if not condition:
        raise invalid(parameter, accepted, got)


@contextmanager
def reported_as_file_error(parameter: str, accepted: str) -> Iterator[None]:
    """Convert errors in this context to `ModelFileError`.

    The code in the context passes values of a file to constructors. NumPy's floating-point warnings are silenced:
    values from a hostile file may overflow a computation, and then the checks on its result reject the file.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except ModelFileError:
        raise
    except InputError as error:
        raise invalid(parameter, accepted, f"an invalid value: {error}") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, RecursionError) as error:
        raise invalid(parameter, accepted, f"an invalid value ({type(error).__name__}: {error})") from error
