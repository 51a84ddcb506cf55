"""A SQLite file in WAL mode with a format number, migrations and translated errors.

    file.execute(...), file.executemany(...)     inside `with file.writing():`
    file.one(...), file.rows(...)                anywhere
    checksum(...)                                in SQL: the CRC-32 of numbers, bytes and NULLs

Used for the log of a host, the journal of a model in shards, and the service's remembered predictions and audit log.
This module does not know what the tables mean.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from budgetron.durable.errors import DirectoryGone, DiskRefused, damaged_log, storage_errors
from budgetron.errors import StorageError, error_message

_TIMEOUT = 10.0  # seconds that a statement waits for other connections
MIN_FREE_BYTES = 64 * 2**10  # with less free space, the disk counts as full

Migrations = Mapping[int, Callable[["SqliteFile"], None]]
_NONE: Migrations = MappingProxyType({})


class SqliteFile:
    """One connection to a SQLite file. Callers must not use it from two threads at the same time.

    Parameters
    ----------
    path : Path
    schema : str
        The statements that create the tables of a new file.
    durable : bool
        True forces every commit to disk (fsync). With False, commits survive a crash of the process, but the last ones
        may be lost in a power failure.
    checked : bool, optional
        Whether the structure of the file is checked on opening. By default it is checked if `durable`.
    migrations : mapping from format number to function
        Each function migrates a file of that format to the next format, in its own transaction. After a crash, the file
        has either the old format or the new one.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        durable: bool = True,
        checked: bool | None = None,
        migrations: Migrations = _NONE,
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._format = max(migrations, default=0) + 1
        self._identity: tuple[int, int] | None = None  # device and inode of the file that was opened
        with storage_errors(path):
            create_private(path)
            self._connection = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
            self._connection.create_function("checksum", -1, _checksum, deterministic=True)
            try:
                self._prepare(schema, durable, durable if checked is None else checked)
                self._identity = self._file_identity()
            except BaseException:
                self.close()
                raise

    def _prepare(self, schema: str, durable: bool, checked: bool) -> None:
        """Configure the connection, check the file, create its tables or migrate it to this format."""
        # In WAL mode readers and backups do not wait for the writer, nor the writer for them.
        self.execute("PRAGMA journal_mode=WAL").fetchone()
        self.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        # Overwrite deleted rows with zeros, because they may be examples of a task that must be forgotten. Whether this
        # is the default depends on how SQLite was compiled.
        self.execute("PRAGMA secure_delete=ON").fetchone()
        (number,) = self.execute("PRAGMA user_version").fetchone()
        if number > self._format:
            raise StorageError(
                error_message(
                    "Host",
                    "the format of the log",
                    f"at most {self._format}",
                    f"{str(self.path)!r}: {number}",
                    "Open the directory with the newer version of budgetron that wrote it.",
                )
            )
        if checked:
            self.check_structure()
        if number == 0:
            self._connection.executescript(f"BEGIN; {schema} PRAGMA user_version={self._format}; COMMIT")
            return
        # One transaction per step: after a crash the next opening continues with the step that was interrupted.
        for older in range(number, self._format):
            with self.writing():
                self._migrations[older](self)
                self.execute(f"PRAGMA user_version={older + 1}")

    def check_structure(self) -> None:
        """Raise `DamagedLog` if pages, rows or indexes contradict each other. SQLite itself checks few of them."""
        with storage_errors(self.path):
            verdict = self.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if verdict != "ok":
            raise damaged_log(self.path, verdict)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: committed at the end of the `with` block, rolled back if an exception leaves it."""
        with storage_errors(self.path):
            self.check_not_replaced()
            # IMMEDIATE takes the write lock now. A transaction that became a writer later could fail in the middle.
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself already, for instance on a full disk.
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def check_not_replaced(self) -> None:
        """Raise `DirectoryGone` if the file is no longer at its path.

        SQLite keeps writing to a deleted file through its open descriptor, and that file vanishes with the process.
        """
        if self._identity is not None and self._file_identity() != self._identity:
            raise DirectoryGone(
                f"Host: the directory {str(self.path.parent)!r} was removed or replaced while in use. Nothing was "
                "learned from this call. Put the directory back, or stop this process and restore a backup: budgetron "
                f"restore BACKUP {self.path.parent}"
            )

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def try_to_write(self, n_bytes: int) -> None:
        """Write `n_bytes` to a separate table, to find out whether the disk has space. Needs an open transaction."""
        self.execute("CREATE TABLE IF NOT EXISTS probe (one INTEGER PRIMARY KEY CHECK (one = 1), content BLOB) STRICT")
        self.execute("INSERT OR REPLACE INTO probe VALUES (1, zeroblob(?))", (n_bytes,))

    def check_free_space(self) -> None:
        """Raise `DiskRefused` if the disk is full.

        A successful write does not prove free space, because SQLite reuses free pages of the file.
        """
        if hasattr(os, "statvfs"):
            status = os.statvfs(self.path.parent)
            blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail  # some blocks are reserved for root
            if blocks * status.f_frsize < MIN_FREE_BYTES:
                raise DiskRefused(f"Host: the disk of {str(self.path.parent)!r} is full. Free disk space.")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def executescript(self, statements: str) -> None:
        """Run several statements inside the open transaction.

        sqlite3's own `executescript` would commit that transaction first.
        """
        for statement in statements.split(";"):
            if statement.strip():
                self.execute(statement)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, values)

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first row of the result, or None."""
        with storage_errors(self.path):
            return self.execute(query, values).fetchone()

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Iterate over the rows of the result without loading them all."""
        with storage_errors(self.path):
            yield from self.execute(query, values)

    def empty_write_ahead_file(self) -> None:
        """Move the write-ahead file into the database and truncate it, because it may still have deleted rows.

        SQLite itself overwrites the old content only when it fills the file again. If the file cannot be truncated now,
        for instance because a backup is reading, it stays as it is, which is harmless.
        """
        with suppress(sqlite3.Error):
            self.execute("PRAGMA busy_timeout = 0")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.execute(f"PRAGMA busy_timeout = {int(1000 * _TIMEOUT)}")

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy through a separate connection, so that the writer does not wait."""
        with storage_errors(self.path):
            copy_database(self.path, target)

    def close(self) -> None:
        self._connection.close()


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a SQLite file, which may be in use, to a new file."""
    create_private(target)
    reader = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        reader.backup(copy)
    finally:
        copy.close()
        reader.close()


def create_private(path: Path) -> None:
    """Create a file that only its owner may read, unless it exists. SQLite gives the files beside it the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _checksum(*values: int | bytes | None) -> int:
    """The SQL function `checksum`. It includes lengths, so moving a byte from one value to the next changes it."""
    crc = 0
    for value in values:
        if isinstance(value, bytes):
            crc = zlib.crc32(value, zlib.crc32(b"%d:" % len(value), crc))
        else:
            crc = zlib.crc32(f"{value};".encode(), crc)
    return crc
