"""The exceptions of durable models, and the translation of SQLite and file system errors into them.

After an error of a `Host`, nothing of the call is in the model, except in three cases: `NotCopied`, a `StaleOwner` of
the copy (another process has taken over the copy), and an error of the snapshot that follows the commit. In these cases
the change is on disk and in the model, but not acknowledged. After an error of one shard, a `ShardedModel` may have
learned the rows of other shards. If the call had a key, it can be repeated, and no row is learned twice.

HTTP statuses are not decided here: the service maps the classes to statuses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetron.errors import BudgetronError, InputError, StorageError

# The primary result codes by which SQLite reports a damaged file, as opposed to a full or read-only disk.
_DAMAGE_CODES = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT,
                 sqlite3.SQLITE_MISMATCH}  # fmt: skip

# The title of each kind of file in messages, and what helps if it is damaged. Every file that is not listed belongs to
# the log of a host.
_LOG = (
    "the log",
    "Restore a backup: budgetron restore BACKUP {folder}. Or continue from the last good state, and lose all later "
    "labels: budgetron repair {folder} --accept-loss",
)
_CONTINUE = "Continue without the damaged part: budgetron repair {folder} --accept-loss"
_FILES = {
    "requests.sqlite": ("the journal of the shards", _CONTINUE),
    "pending.sqlite": ("the file of pending predictions", _CONTINUE),
    "audit.sqlite": (
        "the audit log",
        "Stop the service, move the file away, and start the service again: the next action begins a new audit log.",
    ),
}


class AlreadyOwned(StorageError):
    """Another host has the directory open."""


class StaleOwner(StorageError):
    """A later owner has taken over the directory or its copy, so this host may no longer write to it."""


class StandbyOnly(StorageError):
    """The host is a standby of another host, and may not learn before it takes over."""


class NotCopied(StorageError):
    """The labels are on disk and learned, but could not be written to the copy before the answer."""


class DamagedLog(StorageError):
    """The files on disk, or the objects of a copy, are damaged. `what` describes the damage, without the remedy."""

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what


class DiskRefused(StorageError, OSError):
    """The disk, or the store of a copy, is full, is read-only, or failed."""


class DirectoryGone(StorageError):
    """The files were removed or replaced while in use, so anything written to them would be lost."""


class NothingLearned(InputError):
    """The model has not learned any example yet, so it cannot predict or be saved."""

    def __init__(self, message: str = "Host: the model has learned nothing yet. Learn first.") -> None:
        super().__init__(message)  # pickle passes the message when a Ray worker sends this exception back


class NotInLog(InputError):
    """The record can no longer be corrected.

    It was deleted from the log, or a replay cannot begin before it: there is neither an earlier snapshot nor the
    complete log.
    """


class KeyReused(InputError):
    """The idempotency key was used before with different examples."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the file system, raised inside the `with` block, into `StorageError`s."""
    try:
        yield
    except BudgetronError:  # already translated; `DiskRefused` is also an OSError, which is handled below
        raise
    except sqlite3.Error as error:
        # sqlite3 reports "no such table" and similar errors as operational errors, but they mean damage: a full disk
        # does not remove a table. The low byte of an extended result code is the primary one.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE_CODES:
            raise damaged_log(path, str(error)) from error
        raise DiskRefused(
            f"Host: cannot read or write the directory {str(path.parent)!r}: {error}. Nothing was acknowledged. "
            "Free disk space or correct the permissions, then try again."
        ) from error
    except UnicodeDecodeError as error:  # sqlite3 quotes a damaged name in its message, and cannot decode it
        raise damaged_log(path, "its tables have names that cannot be read") from error
    except OSError as error:
        raise DiskRefused(
            f"Host: cannot read or write the directory {str(path.parent)!r}: {error.strerror}. Check that the path is "
            "a directory and that this user may write to it."
        ) from error


def damaged_log(path: Path, what: str) -> DamagedLog:
    """The error for a damaged file, with what helps."""
    title, remedy = _FILES.get(path.name, _LOG)
    return DamagedLog(f"Host: {title} is damaged: {str(path)!r}: {what}. {remedy.format(folder=path.parent)}", what)
