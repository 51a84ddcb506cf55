"""What a model in shards was asked to learn, one row a request, beside the logs of its shards.

A request may go to several shards, and each shard knows of its own rows only. Here it is whole: written and forced to
disk before any shard hears of it, with its rows until all shards have learned them, and with its answer after that.
Its number makes the keys under which the shards are sent their rows, so that sending them again teaches nothing twice.

    about      the name of this journal (no other has it), where the shards are, and how many
    request    number, key, digest of the rows, the rows until they are learned, the margins from then on
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.sqlite_file import SqliteFile

NAME = "requests.sqlite"
KEYS = 100_000  # that are remembered, the latest
_SCHEMA = """
CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT, place TEXT, shards INTEGER)
    STRICT;
CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, digest BLOB, rows BLOB, margins BLOB)
    STRICT;
CREATE INDEX request_unfinished ON request (number) WHERE rows IS NOT NULL;
"""


@dataclass(frozen=True)
class Answered:
    """A request that all its shards have learned."""

    number: int
    digest: bytes
    margins: bytes


class Journal:
    """The table of one model. Not for several threads at once."""

    def __init__(self, directory: Path, place: Path, shards: int) -> None:
        self._db = SqliteFile(directory / NAME, _SCHEMA)
        try:
            with self._db.writing():
                about = (secrets.token_hex(8), str(place), shards)
                self._db.execute("INSERT OR IGNORE INTO about VALUES (1, ?, ?, ?)", about)
            self.name, found, self.shards = self._db.one("SELECT name, place, shards FROM about")
        except BaseException:
            self._db.close()
            raise
        self.place = Path(found)

    @property
    def position(self) -> int:
        """The number of the last request."""
        found = self._db.one("SELECT seq FROM sqlite_sequence WHERE name = 'request'")
        return 0 if found is None else int(found[0])

    def append(self, requests: Sequence[tuple[str | None, bytes, bytes]]) -> list[int]:
        """Write key, digest and rows of each, all forced to disk in one commit; their numbers."""
        insert = "INSERT INTO request (key, digest, rows) VALUES (?, ?, ?)"
        with self._db.writing():
            return [int(self._db.execute(insert, request).lastrowid or 0) for request in requests]

    def any_unfinished(self) -> bool:
        query = "SELECT EXISTS (SELECT 1 FROM request WHERE rows IS NOT NULL)"
        return bool(self._db.one(query)[0])

    def unfinished(self) -> list[tuple[int, bytes]]:
        """Number and rows of what was written and not yet learned by all its shards, in order."""
        query = "SELECT number, rows FROM request WHERE rows IS NOT NULL ORDER BY number"
        return list(self._db.rows(query))

    def finish(self, answers: Iterable[tuple[int, bytes]], refused: Iterable[int]) -> None:
        """Note the margins of what was learned, and take out what was refused. A request without a key is done with."""
        with self._db.writing():
            self._db.executemany(
                "UPDATE request SET rows = NULL, margins = ? WHERE number = ?",
                [(margins, number) for number, margins in answers],
            )
            self._db.executemany("DELETE FROM request WHERE number = ?", [(number,) for number in refused])
            self._db.execute("DELETE FROM request WHERE key IS NULL AND rows IS NULL")
            self._db.execute(
                "DELETE FROM request WHERE rows IS NULL AND number <= (SELECT max(number) FROM request) - ?", (KEYS,)
            )

    def answer(self, key: str) -> Answered | None:
        """What a key was answered with."""
        query = "SELECT number, digest, margins FROM request WHERE key = ? AND rows IS NULL"
        found = self._db.one(query, (key,))
        return None if found is None else Answered(*found)

    def answers_to(self, prefix: str) -> list[tuple[str, int, bytes]]:
        """Key, number and margins of the keys that begin so."""
        query = "SELECT key, number, margins FROM request WHERE substr(key, 1, ?) = ? AND rows IS NULL"
        return list(self._db.rows(query, (len(prefix), prefix)))

    def close(self) -> None:
        self._db.close()
