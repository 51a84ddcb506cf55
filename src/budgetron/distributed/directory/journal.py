"""The journal of a `ShardedHost`: one row per request to learn, beside the logs of the shards.

A request may go to several shards, and each shard knows only its own rows. The journal has all rows of the request. A
request is forced to disk here before any shard gets it, and stays until all shards have learned it. Its number is part
of the key of its rows in the shards, so that shards learn repeated rows only once. The idempotency keys of clients are
stored as in the log of a `Host`.

    about      the unique name of this journal, where the shards are, and how many
    request    number and rows of each request that not all shards have learned yet
    point      the operating point (how scores become decisions), with its counts up to the last finished request
    keys       idempotency keys: the tables of `budgetron.durable.storage.idempotency`
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from budgetron.durable import Learned
from budgetron.durable.errors import damaged_log
from budgetron.durable.requests import Entry
from budgetron.durable.storage.idempotency import IdempotencyKeys, UnwrittenData
from budgetron.durable.storage.key_tables import CHECKSUM_SCHEMA, MAX_KEY_BYTES, MAX_KEYS, SCHEMA, SCHEMA_2
from budgetron.durable.storage.sqlite_file import SqliteFile

NAME = "requests.sqlite"
_FORGET_EVERY = 1000  # requests between two deletions of old keys, each of which reads all keys
_PROBE_BYTES = 16 * 2**10  # written to find out whether the disk accepts writes
_REQUEST = "CREATE TABLE request (number INTEGER PRIMARY KEY AUTOINCREMENT, rows BLOB) STRICT;"
_REQUEST_CHECKSUM = "ALTER TABLE request ADD COLUMN crc INTEGER;"
_CHECKSUM = "checksum(number, rows)"
_POINT = "CREATE TABLE point (one INTEGER PRIMARY KEY CHECK (one = 1), content BLOB, crc INTEGER) STRICT;"
_SCHEMA = f"""
CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT, place TEXT, shards INTEGER)
    STRICT;
{_REQUEST} {_REQUEST_CHECKSUM}
{_POINT}
{SCHEMA}
"""


def _to_format_2(db: SqliteFile) -> None:
    """In format 1 the keys and their answers were columns of the table of requests."""
    db.executescript(SCHEMA_2)
    db.execute("INSERT INTO answer SELECT key, number, digest, margins FROM request WHERE key IS NOT NULL")
    IdempotencyKeys(db).migrate_format_1_streams()
    row = db.one("SELECT seq FROM sqlite_sequence WHERE name = 'request'")
    db.execute("ALTER TABLE request RENAME TO old_request")
    db.executescript(_REQUEST)
    db.execute("INSERT INTO request SELECT number, rows FROM old_request WHERE rows IS NOT NULL")
    db.execute("DROP TABLE old_request")
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'request'")
    if row is not None:  # continue the numbers, so that none is used twice
        db.execute("INSERT INTO sqlite_sequence VALUES ('request', ?)", row)


def _to_format_3(db: SqliteFile) -> None:
    """Add the checksums of keys and requests."""
    db.executescript(CHECKSUM_SCHEMA + _REQUEST_CHECKSUM)
    IdempotencyKeys(db).write_checksums()
    db.execute(f"UPDATE request SET crc = {_CHECKSUM}")


def _to_format_4(db: SqliteFile) -> None:
    """Add the operating point."""
    db.executescript(_POINT)


_MIGRATIONS = {1: _to_format_2, 2: _to_format_3, 3: _to_format_4}


class Journal:
    """The journal of one model. Callers must not use it from two threads at once.

    `shards_directory` and `shards` describe a new model. Without them the journal must exist.
    """

    def __init__(
        self, directory: Path, shards_directory: Path | None = None, shards: int = 0, checked: bool = True
    ) -> None:
        self.db = SqliteFile(directory / NAME, _SCHEMA, checked=checked, migrations=_MIGRATIONS)
        self.keys = IdempotencyKeys(self.db)
        try:
            if checked:
                self.keys.check()
            if shards_directory is not None:
                with self.db.writing():
                    about = (secrets.token_hex(8), str(shards_directory), shards)
                    self.db.execute("INSERT OR IGNORE INTO about VALUES (1, ?, ?, ?)", about)
            row = self.db.one("SELECT name, place, shards FROM about")
            if row is None:
                raise damaged_log(self.db.path, "it does not say where the shards are")
        except BaseException:
            self.db.close()
            raise
        self.name, self.shards_directory, self.shards = row[0], Path(row[1]), row[2]

    @property
    def position(self) -> int:
        """The number of the last request."""
        row = self.db.one("SELECT seq FROM sqlite_sequence WHERE name = 'request'")
        return 0 if row is None else int(row[0])

    def select_unlearned(self, entries: Sequence[Entry], classes: object) -> list[Entry]:
        """Return the entries with new rows. Every other entry gets its answer here."""
        return self.keys.select_unlearned(entries, UnwrittenData(), classes)

    def end_of_stream(self, key: str) -> int:
        """The position after the last row of a stream that is in the journal."""
        return self.keys.end_of_stream(key, UnwrittenData())

    def append(self, entries: Sequence[Entry]) -> None:
        """Number the entries and write them with their keys, in one commit that is forced to disk."""
        with self.db.writing():
            for entry in entries:
                cursor = self.db.execute("INSERT INTO request (rows) VALUES (?)", (entry.payload,))
                entry.number = int(cursor.lastrowid or 0)
                self.db.execute(f"UPDATE request SET crc = {_CHECKSUM} WHERE number = ?", (entry.number,))
                self.keys.put(entry)

    def any_unfinished(self) -> bool:
        return bool(self.db.one("SELECT EXISTS (SELECT 1 FROM request)")[0])

    def unfinished(self) -> list[tuple[int, bytes]]:
        """The numbers and rows of the requests that not all shards have learned, in order."""
        requests = list(self.db.rows(f"SELECT number, rows, crc IS {_CHECKSUM} FROM request ORDER BY number"))
        for number, _, is_intact in requests:
            if not is_intact:
                raise damaged_log(self.db.path, f"request {number} does not match its checksum")
        return [(number, rows) for number, rows, _ in requests]

    def finish(
        self, answers: Sequence[tuple[int, bytes]], rejected: Iterable[int], point: bytes | None = None
    ) -> None:
        """Delete finished requests. Store the margins of the learned ones, and delete the keys of the rejected ones.

        `point` is the operating point after them. It is written in the same transaction, so every example is counted
        once, even if the process is killed.
        """
        rejected = list(rejected)
        done = [*(number for number, _ in answers), *rejected]
        with self.db.writing():
            self.db.executemany("DELETE FROM request WHERE number = ?", [(number,) for number in done])
            self.keys.store_margins(answers)
            self.keys.remove(rejected)
            if point is None:
                self.db.execute("DELETE FROM point")
            else:
                self.db.execute("REPLACE INTO point VALUES (1, ?, checksum(?))", (point, point))
            # True for about every thousandth request, however many of them are finished together.
            if done and max(done) % _FORGET_EVERY < len(done):
                self.keys.forget(MAX_KEYS, MAX_KEY_BYTES)

    def point(self) -> bytes | None:
        """The operating point that `finish` stored last; None if there is none."""
        row = self.db.one("SELECT content, crc IS checksum(content) FROM point")
        if row is None:
            return None
        if not row[1]:
            raise damaged_log(self.db.path, "the operating point does not match its checksum")
        return bytes(row[0])

    def answers_to(self, prefix: str) -> Iterator[tuple[str, Learned]]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        return self.keys.answers_to(prefix, UnwrittenData())

    def try_to_write(self) -> None:
        """Write 16 KiB, to find out whether a commit would succeed now."""
        with self.db.writing():
            self.db.try_to_write(_PROBE_BYTES)
        self.db.check_free_space()

    def close(self) -> None:
        self.db.close()
