"""What a model in shards was asked to learn, one row per request, beside the logs of its shards.

A request may go to several shards, and each shard knows of its own rows only. Here it is whole: written and forced to
disk before any shard hears of it, and kept until all shards have learned it. Its number makes the keys under which the
shards are sent their rows, so that sending them again teaches nothing twice. The idempotency keys of the clients are
kept as in the log of a host.

    about      the name of this journal (no other has it), where the shards are, and how many
    request    number and rows of what not all shards have learned yet
    keys       idempotency keys: the tables of `budgetron.durable.idempotency`
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from budgetron.durable import Learned
from budgetron.durable.idempotency import MAX_KEY_BYTES, MAX_KEYS, SCHEMA, Entry, IdempotencyKeys, Unwritten
from budgetron.durable.sqlite_file import SqliteFile

NAME = "requests.sqlite"
_TIDY = 1000  # requests after which old keys are forgotten: looking for them costs a pass over the keys
_PROBE = 16 * 2**10  # bytes
_REQUEST = "CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, rows BLOB) STRICT;"
_SCHEMA = f"""
CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT, place TEXT, shards INTEGER)
    STRICT;
{_REQUEST}
{SCHEMA}
"""


def _to_format_2(db: SqliteFile) -> None:
    """Up to format 1 the keys and their answers were columns of the table of requests."""
    db.executescript(SCHEMA)
    db.execute("INSERT INTO answer SELECT key, number, digest, margins FROM request WHERE key IS NOT NULL")
    IdempotencyKeys(db).migrate_format_1_streams()
    found = db.one("SELECT seq FROM sqlite_sequence WHERE name = 'request'")
    db.execute("ALTER TABLE request RENAME TO old_request")
    db.executescript(_REQUEST)
    db.execute("INSERT INTO request SELECT number, rows FROM old_request WHERE rows IS NOT NULL")
    db.execute("DROP TABLE old_request")
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'request'")
    if found is not None:  # numbers go on from there: none is given twice
        db.execute("INSERT INTO sqlite_sequence VALUES ('request', ?)", found)


class Journal:
    """The table of one model. Not for several threads at once."""

    def __init__(self, directory: Path, place: Path, shards: int) -> None:
        self._db = SqliteFile(directory / NAME, _SCHEMA, migrations={1: _to_format_2})
        self._keys = IdempotencyKeys(self._db)
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

    def new_among(self, entries: Sequence[Entry], classes: object) -> list[Entry]:
        """The entries with something to learn; the others have their answer."""
        return self._keys.select_unlearned(entries, Unwritten(), classes)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write rows and keys of each, all forced to disk in one commit; each then has its number."""
        with self._db.writing():
            for entry in entries:
                written = self._db.execute("INSERT INTO request (rows) VALUES (?)", (entry.payload,))
                entry.number = int(written.lastrowid or 0)
                self._keys.put(entry)

    def any_unfinished(self) -> bool:
        return bool(self._db.one("SELECT EXISTS (SELECT 1 FROM request)")[0])

    def unfinished(self) -> list[tuple[int, bytes]]:
        """Number and rows of what was written and not yet learned by all its shards, in order."""
        return list(self._db.rows("SELECT number, rows FROM request ORDER BY number"))

    def finish(self, answers: Sequence[tuple[int, bytes]], refused: Iterable[int]) -> None:
        """Note the margins of what was learned, and take out what was refused, with its key."""
        refused = list(refused)
        done = [*(number for number, _ in answers), *refused]
        with self._db.writing():
            self._db.executemany("DELETE FROM request WHERE number = ?", [(number,) for number in done])
            self._keys.answered(answers)
            self._keys.remove(refused)
            if done and max(done) % _TIDY < len(done):
                self._keys.forget(MAX_KEYS, MAX_KEY_BYTES)

    def answers_to(self, prefix: str) -> Iterator[tuple[str, Learned]]:
        """The remembered keys that begin so, and their answers."""
        return self._keys.answers_to(prefix, Unwritten())

    def try_to_write(self) -> None:
        """Write a little, to see whether that works; what fails is raised."""
        with self._db.writing():
            self._db.try_to_write(_PROBE)
        self._db.check_free_space()

    def close(self) -> None:
        self._db.close()
