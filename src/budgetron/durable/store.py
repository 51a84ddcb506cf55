"""The file of a host: one SQLite database in WAL mode, every commit forced to the disk.

    owner      epoch of the owner, and the number of the last record
    log        record number, the commit it came with, CRC-32, bytes of the block
    keys       idempotency keys: the tables of `idempotency`
    snapshot   record number that the model file stands for, the file in parts

No clock is read: records are ordered by their number alone. Every write checks the epoch inside its transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.idempotency import SCHEMA, STREAM_SCHEMA, Entry, Keys
from budgetron.durable.refusals import StaleOwner, damaged
from budgetron.durable.sqlite_file import SqliteFile
from budgetron.errors import refusal

NAME = "host.sqlite"
_PART = 16 * 2**20  # bytes of a snapshot in one row
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER, position INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, batch INTEGER, crc INTEGER, block BLOB) STRICT;
CREATE TABLE IF NOT EXISTS snapshot (number INTEGER, part INTEGER, content BLOB, PRIMARY KEY (number, part)) STRICT;
INSERT OR IGNORE INTO owner VALUES (1, 0, 0);
{SCHEMA}
"""


def _to_format_2(db: SqliteFile) -> None:
    """Streams have tables of their own since."""
    db.executescript(STREAM_SCHEMA)
    Keys(db).adopt_old_streams()


_MIGRATIONS = {1: _to_format_2}


@dataclass(frozen=True)
class Record:
    """One block of the log. `batch` is the number of the first record of the same commit."""

    number: int
    batch: int
    block: bytes
    keyed: bool = False  # whether its answer is kept for an idempotency key


class Store:
    """The database of one owner. Not for several threads at once: the host has a lock for that."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.epoch = 0
        self._db = SqliteFile(self.path, _SCHEMA, migrations=_MIGRATIONS)
        self.keys = Keys(self._db)

    def take_over(self, epoch: int | None) -> None:
        """Become the owner: with the next epoch, or with a given one that is higher than any before."""
        with self._db.writing():
            (stored,) = self._db.one("SELECT epoch FROM owner")
            if epoch is not None and epoch <= stored:
                raise StaleOwner(
                    refusal("Host", "epoch", f"higher than that of the last owner, {stored}", str(epoch),
                            "A later owner has the directory: ask for a new epoch.")
                )  # fmt: skip
            self.epoch = stored + 1 if epoch is None else epoch
            self._db.execute("UPDATE owner SET epoch = ?", (self.epoch,))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is on disk when the block is left, or nothing."""
        with self._db.writing():
            self._check_owner()
            yield

    def _check_owner(self) -> None:
        (stored,) = self._db.one("SELECT epoch FROM owner")
        if stored != self.epoch:
            raise StaleOwner(
                refusal("Host", "the owner", f"the one of epoch {stored}, which took the directory over",
                        f"epoch {self.epoch}", "Close this host; nothing more may be written through it.")
            )  # fmt: skip

    # ---- the log

    @property
    def position(self) -> int:
        return int(self._db.one("SELECT position FROM owner")[0])

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, which have their numbers, as the records of one commit."""
        for entry in entries:
            crc = zlib.crc32(entry.payload, entry.number & 0xFFFFFFFF)
            values = (entry.number, entries[0].number, crc, entry.payload)
            self._db.execute("INSERT INTO log VALUES (?, ?, ?, ?)", values)
            self.keys.put(entry)
        self.set_position(entries[-1].number)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take refused records out, with their keys."""
        numbers = list(numbers)
        self._db.executemany("DELETE FROM log WHERE number = ?", [(number,) for number in numbers])
        self.keys.remove(numbers)

    def remove_after(self, number: int) -> None:
        self._db.execute("DELETE FROM log WHERE number > ?", (number,))
        self.keys.remove_after(number)

    def records_after(self, start: int) -> Iterator[Record]:
        """The log in order; a record whose bytes have changed is refused."""
        query = (
            "SELECT number, batch, crc, block, EXISTS (SELECT 1 FROM answer WHERE answer.number = log.number) "
            "OR EXISTS (SELECT 1 FROM stream_block WHERE stream_block.number = log.number) "
            "FROM log WHERE number > ? ORDER BY number"
        )
        for number, batch, crc, block, keyed in self._db.rows(query, (start,)):
            if zlib.crc32(block, number & 0xFFFFFFFF) != crc:
                raise damaged(self.path, f"record {number} has other bytes than were written")
            yield Record(number, batch, block, bool(keyed))

    def log_bytes_after(self, number: int) -> int:
        query = "SELECT coalesce(sum(length(block)), 0) FROM log WHERE number > ?"
        return int(self._db.one(query, (number,))[0])

    # ---- snapshots

    def snapshots(self) -> list[int]:
        """Their record numbers, the newest first."""
        query = "SELECT DISTINCT number FROM snapshot ORDER BY number DESC"
        return [number for (number,) in self._db.rows(query)]

    def snapshot(self, number: int) -> bytes:
        query = "SELECT content FROM snapshot WHERE number = ? ORDER BY part"
        return b"".join(content for (content,) in self._db.rows(query, (number,)))

    def put_snapshot(self, number: int, content: bytes) -> None:
        self._db.execute("DELETE FROM snapshot WHERE number = ?", (number,))
        for part, start in enumerate(range(0, len(content), _PART)):
            values = (number, part, content[start : start + _PART])
            self._db.execute("INSERT INTO snapshot VALUES (?, ?, ?)", values)

    def trim(self, before: int) -> None:
        """Forget snapshots older than this one, and the log that it already holds."""
        self._db.execute("DELETE FROM snapshot WHERE number < ?", (before,))
        self._db.execute("DELETE FROM log WHERE number <= ?", (before,))

    def drop_snapshots_after(self, number: int) -> None:
        self._db.execute("DELETE FROM snapshot WHERE number > ?", (number,))

    def set_position(self, position: int) -> None:
        self._db.execute("UPDATE owner SET position = ?", (position,))

    # ---- the file

    def try_to_write(self, n_bytes: int) -> None:
        """Write so many bytes as the owner, to see whether that works; what fails is raised."""
        with self.writing():
            self._db.try_to_write(n_bytes)
        self._db.check_room()

    def copy_to(self, target: Path) -> None:
        """A consistent copy; the writer does not wait."""
        self._db.copy_to(target)

    def close(self) -> None:
        self._db.close()
