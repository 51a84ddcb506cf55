"""The exceptions of durable models, and the translation of SQLite and file system errors into them.

After any of these the model and the log are as they were before the call. HTTP statuses are not decided here: the
service maps the classes to statuses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetron.errors import BudgetronError, InputError, StorageError, refusal


class AlreadyOwned(StorageError):
    """Another host has the directory open."""


class StaleOwner(StorageError):
    """A later owner has taken over the directory, so this one may not write to it any more."""


class DamagedLog(StorageError):
    """The files on disk differ from what was acknowledged."""


class DiskRefused(StorageError, OSError):
    """The disk is full, read-only, or failed."""


class DirectoryGone(StorageError):
    """The files were removed or replaced while in use, so anything written to them would be lost."""


class NothingLearned(InputError):
    """The model has not learned any example yet, so it cannot predict or be saved."""

    def __init__(self, message: str = "Host: the model has learned nothing yet. Learn first.") -> None:
        super().__init__(message)  # pickle passes the message when a Ray worker sends this exception back


class KeyReused(InputError):
    """An idempotency key that was used before with different examples."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the file system, raised inside the `with` block, into `StorageError`s."""
    try:
        yield
    except BudgetronError:  # DiskRefused is an OSError, and has been translated already
        raise
    except sqlite3.OperationalError as error:
        raise DiskRefused(
            refusal(
                "Host",
                "the directory",
                "one that can be written, on a disk with free space left",
                f"{str(path.parent)!r}: {error}",
                "Nothing was learned from this call. Free disk space or correct the permissions, then try again.",
            )
        ) from error
    except sqlite3.DatabaseError as error:
        raise damaged_log(path, str(error)) from error
    except OSError as error:
        raise DiskRefused(
            refusal(
                "Host", "the directory", "one that can be read and written", f"{str(path.parent)!r}: {error.strerror}",
                "Check that the path is a directory and that this user may write to it.",
            )
        ) from error


def damaged_log(path: Path, what: str) -> DamagedLog:
    """The error for a log whose content differs from what was acknowledged."""
    remedy = (
        "Restore a backup. Or open the directory with accept_loss=True, which continues from the last good state and "
        "discards later records."
    )
    return DamagedLog(refusal("Host", "the log", "as it was acknowledged", f"{str(path)!r}: {what}", remedy))
