"""The tables of a host: one SQLite database in WAL mode, every commit forced to disk.

    owner      epoch of the owner, and the number of the last record
    log        record number, first record number of the same commit, CRC-32, bytes of the block
    answer, stream_block, stream_forgotten      idempotency keys; see `idempotency`
    snapshot   the number of the last record that the model file contains, and the file in parts

Used by `LogAndSnapshots` and `recovery` only. No clock is read: records are ordered by their number, so a clock that
runs backwards does no harm. Every write checks the owner's epoch inside its transaction, so a former owner cannot
write.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.errors import StaleOwner, damaged_log
from budgetron.durable.idempotency import SCHEMA, STREAM_SCHEMA, Entry, IdempotencyKeys
from budgetron.durable.sqlite_file import SqliteFile
from budgetron.errors import refusal

NAME = "host.sqlite"
_PART_BYTES = 16 * 2**20  # of a snapshot per row, because SQLite limits a value to 1 GB and holds it in memory
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER, position INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, batch INTEGER, crc INTEGER, block BLOB) STRICT;
CREATE TABLE IF NOT EXISTS snapshot (number INTEGER, part INTEGER, content BLOB, PRIMARY KEY (number, part)) STRICT;
INSERT OR IGNORE INTO owner VALUES (1, 0, 0);
{SCHEMA}
"""


def _to_format_2(db: SqliteFile) -> None:
    """Add the tables of streams, which format 1 did not have."""
    db.executescript(STREAM_SCHEMA)
    IdempotencyKeys(db).migrate_format_1_streams()


_MIGRATIONS = {1: _to_format_2}


@dataclass(frozen=True)
class Record:
    """One record of the log. `batch` is the number of the first record of the same commit."""

    number: int
    batch: int
    block: bytes
    keyed: bool = False  # whether its margins are stored for an idempotency key


class Store:
    """The database of one owner. Callers must not use it from two threads at once; `Host` has a lock for that."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.epoch = 0
        self._db = SqliteFile(self.path, _SCHEMA, migrations=_MIGRATIONS)
        self.keys = IdempotencyKeys(self._db)

    def take_over(self, epoch: int | None) -> None:
        """Become the owner, with the next epoch or with a given one that must be higher than all before."""
        with self._db.writing():
            (stored,) = self._db.one("SELECT epoch FROM owner")
            if epoch is not None and epoch <= stored:
                raise StaleOwner(
                    refusal("Host", "epoch", f"higher than that of the last owner, {stored}", str(epoch),
                            "A later owner has the directory. Pass a higher epoch to take it over.")
                )  # fmt: skip
            self.epoch = stored + 1 if epoch is None else epoch
            self._db.execute("UPDATE owner SET epoch = ?", (self.epoch,))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction by the current owner: on disk at the end of the `with` block, or rolled back."""
        with self._db.writing():
            self._check_owner()
            yield

    def _check_owner(self) -> None:
        (stored,) = self._db.one("SELECT epoch FROM owner")
        if stored != self.epoch:
            raise StaleOwner(
                refusal("Host", "the owner", f"the one of epoch {stored}, which took the directory over",
                        f"epoch {self.epoch}", "Close this host: it can no longer write.")
            )  # fmt: skip

    # ---- the log

    @property
    def position(self) -> int:
        return int(self._db.one("SELECT position FROM owner")[0])

    def append(self, entries: Sequence[Entry]) -> None:
        """Write numbered entries as the records of one commit, with their idempotency keys."""
        for entry in entries:
            # The number seeds the checksum, so that a record in the wrong place is noticed too.
            crc = zlib.crc32(entry.payload, entry.number & 0xFFFFFFFF)
            values = (entry.number, entries[0].number, crc, entry.payload)
            self._db.execute("INSERT INTO log VALUES (?, ?, ?, ?)", values)
            self.keys.put(entry)
        self.set_position(entries[-1].number)

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete records that the model rejected, with their idempotency keys."""
        numbers = list(numbers)
        self._db.executemany("DELETE FROM log WHERE number = ?", [(number,) for number in numbers])
        self.keys.remove(numbers)

    def remove_after(self, number: int) -> None:
        self._db.execute("DELETE FROM log WHERE number > ?", (number,))
        self.keys.remove_after(number)

    def records_after(self, start: int) -> Iterator[Record]:
        """Iterate over the log in order. Raises `DamagedLog` at a record whose bytes have changed."""
        query = (
            "SELECT number, batch, crc, block, EXISTS (SELECT 1 FROM answer WHERE answer.number = log.number) "
            "OR EXISTS (SELECT 1 FROM stream_block WHERE stream_block.number = log.number) "
            "FROM log WHERE number > ? ORDER BY number"
        )
        for number, batch, crc, block, keyed in self._db.rows(query, (start,)):
            if zlib.crc32(block, number & 0xFFFFFFFF) != crc:
                raise damaged_log(self.path, f"record {number} has other bytes than were written")
            yield Record(number, batch, block, bool(keyed))

    def log_bytes_after(self, number: int) -> int:
        query = "SELECT coalesce(sum(length(block)), 0) FROM log WHERE number > ?"
        return int(self._db.one(query, (number,))[0])

    # ---- snapshots

    def snapshots(self) -> list[int]:
        """The record numbers of the snapshots, newest first."""
        query = "SELECT DISTINCT number FROM snapshot ORDER BY number DESC"
        return [number for (number,) in self._db.rows(query)]

    def snapshot(self, number: int) -> bytes:
        query = "SELECT content FROM snapshot WHERE number = ? ORDER BY part"
        return b"".join(content for (content,) in self._db.rows(query, (number,)))

    def put_snapshot(self, number: int, content: bytes) -> None:
        self._db.execute("DELETE FROM snapshot WHERE number = ?", (number,))
        for part, start in enumerate(range(0, len(content), _PART_BYTES)):
            values = (number, part, content[start : start + _PART_BYTES])
            self._db.execute("INSERT INTO snapshot VALUES (?, ?, ?)", values)

    def trim(self, before: int) -> None:
        """Delete older snapshots, and the records that this snapshot contains."""
        self._db.execute("DELETE FROM snapshot WHERE number < ?", (before,))
        self._db.execute("DELETE FROM log WHERE number <= ?", (before,))

    def drop_snapshots_after(self, number: int) -> None:
        self._db.execute("DELETE FROM snapshot WHERE number > ?", (number,))

    def set_position(self, position: int) -> None:
        self._db.execute("UPDATE owner SET position = ?", (position,))

    # ---- the file

    def try_to_write(self, n_bytes: int) -> None:
        """Write `n_bytes` in a transaction, to find out whether a commit would succeed. Raises its error if not."""
        with self.writing():
            self._db.try_to_write(n_bytes)
        self._db.check_free_space()

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy of the database. The writer does not wait."""
        self._db.copy_to(target)

    def close(self) -> None:
        self._db.close()
