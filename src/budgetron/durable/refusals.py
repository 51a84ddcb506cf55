"""What a host raises beyond bad input. The model is as it was, and so is the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetron.errors import BudgetronError, InputError, StorageError, refusal


class AlreadyOwned(StorageError):
    """Another host has the directory open."""


class StaleOwner(StorageError):
    """A later owner has taken the directory over: nothing more may be written by this one."""


class DamagedLog(StorageError):
    """What is on disk is not what was acknowledged."""


class DiskRefused(StorageError, OSError):
    """The disk is full, may not be written, or failed."""


class DirectoryGone(StorageError):
    """The files were removed or replaced under the running process: what it writes would be lost."""


class NothingLearned(InputError):
    """A model without a first example cannot predict, nor be copied."""

    def __init__(self, message: str = "Host: the model has learned nothing yet. Learn first.") -> None:
        super().__init__(message)  # the argument lets pickle make it again, on the way from a Ray worker


class KeyReused(InputError):
    """An idempotency key that came before with another content."""


@contextmanager
def speaking_of(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the file system in our words."""
    try:
        yield
    except BudgetronError:  # one of them is an OSError, and has its words already
        raise
    except sqlite3.OperationalError as error:
        raise DiskRefused(
            refusal(
                "Host",
                "the directory",
                "one that can be written, with room left",
                f"{str(path.parent)!r}: {error}",
                "Nothing was learned from this call. Make room or mend the rights, then send it again.",
            )
        ) from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise DiskRefused(
            refusal(
                "Host", "the directory", "one that can be read and written", f"{str(path.parent)!r}: {error.strerror}"
            )
        ) from error


def damaged(path: Path, what: str) -> DamagedLog:
    """The refusal of a log that has lost something."""
    remedy = (
        "Put a backup in its place. Or open with accept_loss=True: it goes on from the last good state "
        "and gives up what came after."
    )
    return DamagedLog(refusal("Host", "the log", "as it was acknowledged", f"{str(path)!r}: {what}", remedy))
