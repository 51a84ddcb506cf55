"""The write-ahead log of a host: one SQLite database in WAL mode, every commit forced to disk.

    owner      epoch of the owner, and the number of the last record
    log        record number, first record number of the same commit, CRC-32, bytes of the block
    answer, stream_block, stream_forgotten      idempotency keys; see `idempotency`
    snapshot   the number of the last record that the model file contains, and the file in parts; see `snapshots`

No clock is read: records are ordered by their number, so a clock that runs backwards does no harm. Every write checks
the owner's epoch inside its transaction, so a former owner cannot write.

`Host` calls this under its commit lock; it is not safe for several threads. It must not touch the model.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.blocks import margins_to_bytes
from budgetron.durable.errors import StaleOwner, damaged_log, storage_errors
from budgetron.durable.idempotency import SCHEMA, STREAM_SCHEMA, IdempotencyKeys, Unwritten
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.requests import Entry, Learned, StreamRows
from budgetron.durable.sqlite_file import SqliteFile
from budgetron.errors import StorageError, refusal

NAME = "host.sqlite"
_PROBE_BYTES = 16 * 2**10  # written to find out whether the disk accepts writes
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


class Log:
    """The log and the idempotency keys of one owner."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.epoch = 0
        self.db = SqliteFile(self.path, _SCHEMA, migrations=_MIGRATIONS)
        try:
            with storage_errors(self.path):
                self.mark = AcknowledgedMark(directory)
        except BaseException:
            self.db.close()
            raise
        self.keys = IdempotencyKeys(self.db)
        self.position = int(self.db.one("SELECT position FROM owner")[0])  # of the last record, rejected ones included
        # Known only after the commit that logged the records, and written with the next one, which saves an fsync.
        # After a crash, the replay computes them again.
        self.unwritten = Unwritten()
        self.write_error: StorageError | None = None  # of the last commit
        self._failed_bytes = 0

    @property
    def directory(self) -> Path:
        return self.path.parent

    # ---- ownership

    def take_over(self, epoch: int | None) -> None:
        """Become the owner, with the next epoch or with a given one that must be higher than all before."""
        with self.db.writing():
            (stored,) = self.db.one("SELECT epoch FROM owner")
            if epoch is not None and epoch <= stored:
                raise StaleOwner(
                    refusal("Host", "epoch", f"higher than that of the last owner, {stored}", str(epoch),
                            "A later owner has the directory. Pass a higher epoch to take it over.")
                )  # fmt: skip
            self.epoch = stored + 1 if epoch is None else epoch
            self.db.execute("UPDATE owner SET epoch = ?", (self.epoch,))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction by the current owner: on disk at the end of the `with` block, or rolled back."""
        with self.db.writing():
            (stored,) = self.db.one("SELECT epoch FROM owner")
            if stored != self.epoch:
                raise StaleOwner(
                    refusal("Host", "the owner", f"the one of epoch {stored}, which took the directory over",
                            f"epoch {self.epoch}", "Close this host: it can no longer write.")
                )  # fmt: skip
            yield

    # ---- writing

    def append(self, entries: Sequence[Entry]) -> None:
        """Number the entries and write them with their idempotency keys, in one commit that is forced to disk."""
        for number, entry in enumerate(entries, self.position + 1):
            entry.number = number
        size = sum(len(entry.payload) for entry in entries)
        try:
            with self.writing():
                self.write_unwritten()
                for entry in entries:
                    # The number seeds the checksum, so that a record in the wrong place is noticed too.
                    crc = zlib.crc32(entry.payload, entry.number & 0xFFFFFFFF)
                    values = (entry.number, entries[0].number, crc, entry.payload)
                    self.db.execute("INSERT INTO log VALUES (?, ?, ?, ?)", values)
                    self.keys.put(entry)
                self.set_position(entries[-1].number)
        except StorageError as error:
            self.write_error, self._failed_bytes = error, size
            raise
        self.write_error = None
        self.written(entries[-1].number)

    def written(self, position: int) -> None:
        """Note that a commit has succeeded."""
        self.unwritten = Unwritten()
        self.position = position
        self.mark.write(position)

    def learned(self, entry: Entry, margins: NDArray[np.float64]) -> None:
        """Note that the model learned this record: the next transaction stores the margins for its key."""
        if entry.key is not None:
            self.unwritten.answers[entry.number] = margins_to_bytes(margins)

    def rejected(self, number: int) -> None:
        """Note that the model rejected this record: the next transaction deletes it, with its key."""
        self.unwritten.refused.append(number)

    def write_unwritten(self) -> None:
        """Write what `learned` and `rejected` noted, inside an open transaction."""
        numbers = self.unwritten.refused
        self.db.executemany("DELETE FROM log WHERE number = ?", [(number,) for number in numbers])
        self.keys.remove(numbers)
        self.keys.answered(self.unwritten.answers.items())

    def set_position(self, position: int) -> None:
        self.db.execute("UPDATE owner SET position = ?", (position,))

    def remove_after(self, number: int) -> None:
        self.db.execute("DELETE FROM log WHERE number > ?", (number,))
        self.keys.remove_after(number)

    def try_to_write(self) -> None:
        """Write as many bytes as the last failed commit had, to find out whether a retry would succeed.

        A small probe alone would report a nearly full disk as ready, and the retry would fail again.
        """
        with self.writing():
            self.db.try_to_write(_PROBE_BYTES if self.write_error is None else max(_PROBE_BYTES, self._failed_bytes))
        self.db.check_free_space()
        self.write_error = None

    # ---- reading

    def records_after(self, start: int) -> Iterator[Record]:
        """Iterate over the log in order. Raises `DamagedLog` at a record whose bytes have changed."""
        query = (
            "SELECT number, batch, crc, block, EXISTS (SELECT 1 FROM answer WHERE answer.number = log.number) "
            "OR EXISTS (SELECT 1 FROM stream_block WHERE stream_block.number = log.number) "
            "FROM log WHERE number > ? ORDER BY number"
        )
        for number, batch, crc, block, keyed in self.db.rows(query, (start,)):
            if zlib.crc32(block, number & 0xFFFFFFFF) != crc:
                raise damaged_log(self.path, f"record {number} has other bytes than were written")
            yield Record(number, batch, block, bool(keyed))

    def bytes_after(self, number: int) -> int:
        query = "SELECT coalesce(sum(length(block)), 0) FROM log WHERE number > ?"
        return int(self.db.one(query, (number,))[0])

    def select_unlearned(self, entries: Sequence[Entry], classes: Any) -> list[Entry]:
        """The entries with rows that were not learned before. The other entries are given their answer."""
        return self.keys.select_unlearned(entries, self.unwritten, classes)

    def check_stream(self, key: str, rows: StreamRows) -> int:
        """How many of these rows were learned, from the first. Raises `KeyReused` if other rows were learned there."""
        if self.keys.has_message_keys(key):
            with self.writing():
                self.keys.adopt_message_keys(key, rows.places)
        return self.keys.check_stream(key, rows, self.unwritten)

    def answers_to(self, prefix: str) -> Iterable[tuple[str, Learned]]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        return self.keys.answers_to(prefix, self.unwritten)

    def copy_to(self, target: Path) -> None:
        """Write a copy of the database to one file, atomically. The writer does not wait."""
        partial = target.with_name(f".{target.name}.part")
        with storage_errors(target):
            partial.unlink(missing_ok=True)
            try:
                self.db.copy_to(partial)
                with open(partial, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(partial, target)
            finally:
                partial.unlink(missing_ok=True)

    def close(self) -> None:
        self.db.close()
        self.mark.close()
