"""The words of a refused file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from budgetron.errors import InputError, ModelFileError, refusal

WHO = "load"
PICKLE = "pickle or joblib keeps it (load such a file only from people you trust)."


def lie(parameter: str, accepted: str, came: str, remedy: str = "") -> ModelFileError:
    """A refusal of something in a file, to be raised by the caller."""
    return ModelFileError(refusal(WHO, parameter, accepted, came, remedy))


def require(holds: object, parameter: str, accepted: str, came: str = "something else") -> None:
    """Refuse the file unless this holds."""
    if not holds:
        raise lie(parameter, accepted, came)


@contextmanager
def refusing(parameter: str, accepted: str) -> Iterator[None]:
    """What a part's own maker refuses is refused as a lie of the file; floating point overflows in silence."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ModelFileError:
        raise
    except InputError as error:
        raise lie(parameter, accepted, f"one that is not: {error}") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, RecursionError) as error:
        raise lie(parameter, accepted, f"one that is not ({type(error).__name__}: {error})") from error
