"""A SQLite file of ours: in WAL mode, with a format number, its transactions whole, its errors in our words.

    file.execute(...), file.executemany(...)     inside `with file.writing():`
    file.one(...), file.rows(...)                anywhere
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from budgetron.durable.refusals import DirectoryGone, DiskRefused, damaged, speaking_of
from budgetron.errors import refusal

LEAST_FREE = 64 * 2**10  # bytes on the disk

Migrations = Mapping[int, Callable[["SqliteFile"], None]]
_NONE: Migrations = MappingProxyType({})


class SqliteFile:
    """One connection, not for several threads at once.

    Where it is `durable` every commit is forced to the disk, and the file is looked over on opening. Where it is not,
    the last commits may go with the power, though not with the process.

    A new file is made with `schema`. One of an earlier format is brought to the next by `migrations`, each from the
    format that is its index to the one after it, in one transaction each: a crash leaves a format whole.
    """

    def __init__(
        self, path: Path, schema: str, *, durable: bool = True, migrations: Migrations = _NONE
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._format = max(migrations, default=0) + 1
        self._identity: tuple[int, int] | None = None  # of the file that was opened
        with speaking_of(path):
            self._connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(schema, durable)
                self._identity = self._found()
            except BaseException:
                self.close()
                raise

    def _prepare(self, schema: str, durable: bool) -> None:
        self.execute("PRAGMA journal_mode=WAL").fetchone()
        self.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        (number,) = self.execute("PRAGMA user_version").fetchone()
        if number > self._format:
            raise damaged(self.path, f"its format is {number}, and this budgetron knows {self._format}")
        if durable:
            found = self.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise damaged(self.path, found)
        if number == 0:
            self._connection.executescript(f"BEGIN; {schema} PRAGMA user_version={self._format}; COMMIT")
            return
        for older in range(number, self._format):
            with self.writing():
                self._migrations[older](self)
                self.execute(f"PRAGMA user_version={older + 1}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is written when the block is left, or nothing."""
        with speaking_of(self.path):
            self.check_place()
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def check_place(self) -> None:
        """Refuse where the file is no longer at its path: SQLite would go on writing to a file that has no name."""
        if self._identity is not None and self._found() != self._identity:
            raise DirectoryGone(
                refusal("Host", "the directory", "left in place while it is in use",
                        f"{str(self.path.parent)!r}, which was removed or replaced",
                        "Nothing was learned from this call. Put the files back, or start again with a backup.")
            )  # fmt: skip

    def _found(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def try_to_write(self, n_bytes: int) -> None:
        """Write so many bytes, inside a transaction, to see whether there is room for them."""
        self.execute("CREATE TABLE IF NOT EXISTS probe (one INTEGER PRIMARY KEY CHECK (one = 1), content BLOB) STRICT")
        self.execute("INSERT OR REPLACE INTO probe VALUES (1, zeroblob(?))", (n_bytes,))

    def check_room(self) -> None:
        """Refuse where the disk is full, even if the next commit would still fit into a file that has its size."""
        if hasattr(os, "statvfs"):
            status = os.statvfs(self.path.parent)
            blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail  # some blocks are root's only
            if blocks * status.f_frsize < LEAST_FREE:
                raise DiskRefused(
                    refusal("Host", "the directory", "on a disk with room left", f"{str(self.path.parent)!r}, full",
                            "Make room.")
                )  # fmt: skip

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def executescript(self, statements: str) -> None:
        """Several statements, inside the transaction that is open."""
        for statement in statements.split(";"):
            if statement.strip():
                self.execute(statement)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, values)

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first row, or None."""
        with speaking_of(self.path):
            return self.execute(query, values).fetchone()

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Every row, read as they are asked for."""
        with speaking_of(self.path):
            yield from self.execute(query, values)

    def copy_to(self, target: Path) -> None:
        """A consistent copy by a reader of its own: the writer does not wait."""
        with speaking_of(self.path):
            reader = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                reader.backup(copy)
            finally:
                copy.close()
                reader.close()

    def close(self) -> None:
        self._connection.close()
