"""A SQLite file of ours: in WAL mode, with a format number, its transactions whole, its errors in our words.

    file.execute(...), file.executemany(...)     inside `with file.writing():`
    file.one(...), file.rows(...)                anywhere
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from budgetron.durable.refusals import damaged, speaking_of

FORMAT = 1


class SqliteFile:
    """One connection, not for several threads at once.

    Where it is `durable` every commit is forced to the disk, and the file is looked over on opening. Where it is not,
    the last commits may go with the power, though not with the process.
    """

    def __init__(self, path: Path, schema: str, *, durable: bool = True) -> None:
        self.path = path
        with speaking_of(path):
            self._connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(schema, durable)
            except BaseException:
                self.close()
                raise

    def _prepare(self, schema: str, durable: bool) -> None:
        self.execute("PRAGMA journal_mode=WAL").fetchone()
        self.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        (number,) = self.execute("PRAGMA user_version").fetchone()
        if number not in (0, FORMAT):
            raise damaged(self.path, f"its format is {number}, and this budgetron knows {FORMAT}")
        if durable:
            found = self.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise damaged(self.path, found)
        if number == 0:
            self._connection.executescript(f"BEGIN; {schema} PRAGMA user_version={FORMAT}; COMMIT")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is written when the block is left, or nothing."""
        with speaking_of(self.path):
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

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
