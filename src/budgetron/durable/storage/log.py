"""The write-ahead log of a host: one SQLite database in WAL mode. Every commit is forced to disk.

`log_schema` describes the tables.

Records are ordered by their number and not by time, so a wrong clock does no harm. Every write checks the owner's epoch
inside its transaction, so a former owner cannot write.

The log is not safe for several threads, so `Host` calls it under its commit lock. Only `copy_to` needs no lock. The log
must not touch the model.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.blocks import margins_to_bytes
from budgetron.durable.errors import StaleOwner, damaged_log, storage_errors
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.requests import Entry, Learned, StreamRows
from budgetron.durable.storage.idempotency import IdempotencyKeys, UnwrittenData
from budgetron.durable.storage.log_schema import CLEAR_RECORD, DROP_RECORD, MIGRATIONS, NAME, OWNER_CHECKSUM, SCHEMA
from budgetron.durable.storage.sqlite_file import SqliteFile
from budgetron.errors import StorageError, error_message

_PROBE_BYTES = 16 * 2**10  # written to find out whether the disk accepts writes


@dataclass(frozen=True)
class Record:
    """One record of the log. `batch` is the number of the first record of the same commit."""

    number: int
    batch: int
    block: bytes | None  # None: the model rejected it, or all its examples were withdrawn
    answer_missing: bool = False  # whether it has an idempotency key whose margins are not stored yet


class Log:
    """The log and the idempotency keys of one owner.

    `repair` and `restore` pass `checked=False` to open a log that may be damaged.
    """

    def __init__(self, directory: Path, checked: bool = True) -> None:
        self.path = directory / NAME
        with storage_errors(self.path), ExitStack() as undo:
            self.mark = AcknowledgedMark(directory)
            undo.callback(self.mark.close)
            if self.mark.read() and not self.path.exists():
                raise damaged_log(self.path, "it is missing")
            self.db = SqliteFile(self.path, SCHEMA, checked=checked, migrations=MIGRATIONS)
            undo.callback(self.db.close)
            self.keys = IdempotencyKeys(self.db)
            # `position` counts rejected records too. `snapshots` has the numbers of the snapshots that must exist, the
            # newest first.
            self.epoch, self.position, self.snapshots = self._owner(checked)
            if checked:
                self.keys.check()
            undo.pop_all()
        # Rejections and margins are known only after the commit that logged the records. To save an fsync, they are
        # written with the next commit. After a crash, the replay computes them again.
        self.unwritten = UnwrittenData()
        self.write_error: StorageError | None = None  # why the last commit failed
        self._failed_bytes = 0  # how many bytes that commit would have written

    def _owner(self, checked: bool) -> tuple[int, int, list[int]]:
        """Read the epoch, the position and the numbers of the snapshots.

        If the row of the owner is damaged and `checked` is False, the epoch is 0, and the position and the numbers are
        read from the table of snapshots.
        """
        query = f"SELECT epoch, position, snapshot, previous FROM owner WHERE crc IS {OWNER_CHECKSUM}"
        row = self.db.one(query)
        if row is not None:
            return row[0], row[1], [number for number in row[2:] if number is not None]
        if checked:
            raise damaged_log(self.path, "the table of its owner does not match its checksum")
        numbers = [number for (number,) in self.db.rows("SELECT DISTINCT number FROM snapshot ORDER BY number DESC")]
        return 0, max([0, *numbers]), numbers

    @property
    def directory(self) -> Path:
        return self.path.parent

    # ---- ownership

    def take_over(self, epoch: int | None) -> None:
        """Become the owner with the next epoch, or with `epoch`, which must be higher than all earlier ones."""
        with self.db.writing():
            (stored,) = self.db.one("SELECT epoch FROM owner")
            if epoch is not None and epoch <= stored:
                raise StaleOwner(
                    error_message("Host", "epoch", f"higher than the epoch of the last owner, {stored}", str(epoch),
                                  "A later owner has the directory. Pass a higher epoch to take it over.")
                )  # fmt: skip
            self.epoch = stored + 1 if epoch is None else epoch
            self.set_owner("epoch = ?", self.epoch)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction by the current owner: on disk at the end of the `with` block, or rolled back."""
        with self.db.writing():
            (stored,) = self.db.one("SELECT epoch FROM owner")
            if stored != self.epoch:
                raise StaleOwner(
                    f"Host: another process took over the directory with epoch {stored}; this host has epoch "
                    f"{self.epoch}. Close this host, because it can no longer write."
                )
            yield

    # ---- writing

    def append(self, entries: Sequence[Entry], replacing: bool = False) -> None:
        """Number the entries and write them with their idempotency keys, in one commit that is forced to disk.

        With `replacing`, an entry replaces the stored key of the same name. A standby needs this: the owner may have
        deleted an old key and then accepted it again as a new one, while the standby still stores the old one.
        """
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
                    if replacing and entry.rows is None:
                        self.db.execute("DELETE FROM answer WHERE key = ?", (entry.key,))
                    self.keys.put(entry)
                self.set_owner("position = ?", entries[-1].number)
        except StorageError as error:
            self.write_error, self._failed_bytes = error, size
            raise
        self.write_error = None
        self.note_written(entries[-1].number)

    def note_written(self, position: int) -> None:
        """Note that a commit has succeeded."""
        self.unwritten = UnwrittenData()
        self.position = position
        self.mark.write(position)

    def note_learned(self, entry: Entry, margins: NDArray[np.float64]) -> None:
        """Note that the model learned this record: the next transaction stores the margins for its key."""
        if entry.key is not None:
            self.unwritten.answers[entry.number] = margins_to_bytes(margins)

    def note_rejected(self, number: int) -> None:
        """Note that the model rejected this record: the next transaction clears it and deletes its key."""
        self.unwritten.rejected.append(number)

    def write_unwritten(self) -> None:
        """Write the margins and rejections noted since the last commit, inside an open transaction."""
        numbers = self.unwritten.rejected
        for statement in (CLEAR_RECORD, DROP_RECORD):
            self.db.executemany(statement, [(number,) for number in numbers])
        self.keys.remove(numbers)
        self.keys.store_margins(self.unwritten.answers.items())

    def set_owner(self, assignments: str, *values: int | None) -> None:
        """Change columns of the owner's row, inside an open transaction."""
        self.db.execute(f"UPDATE owner SET {assignments}", values)
        self.db.execute(f"UPDATE owner SET crc = {OWNER_CHECKSUM}")

    def try_to_write(self) -> None:
        """Find out whether a commit would succeed: write 16 KiB, or as many bytes as the last commit had if it failed.

        16 KiB alone would report a nearly full disk as ready, and a retry of the failed commit would fail again.
        """
        with self.writing():
            self.db.try_to_write(_PROBE_BYTES if self.write_error is None else max(_PROBE_BYTES, self._failed_bytes))
        self.db.check_free_space()
        self.write_error = None

    # ---- reading

    def records_after(self, start: int, gaps_until: int = 0) -> Iterator[Record]:
        """Iterate over the log in order. Raises `DamagedLog` where a record is missing or its bytes have changed.

        Records up to the number `gaps_until` may be missing. Pass the number of the oldest snapshot to read a log from
        its beginning: records that were rejected before the first snapshot are deleted (`log_schema`).
        """
        query = (
            "SELECT number, batch, crc, block, "
            "EXISTS (SELECT 1 FROM answer WHERE answer.number = log.number AND margins IS NULL) "
            "OR EXISTS (SELECT 1 FROM stream_block WHERE stream_block.number = log.number AND margins IS NULL) "
            "FROM log WHERE number > ? ORDER BY number"
        )
        last = max(start, gaps_until)
        for number, batch, crc, block, answer_missing in self.db.rows(query, (start,)):
            # Before the first snapshot, rejected records are deleted, so gaps are normal (`log_schema`).
            if self.snapshots and number > gaps_until and number != last + 1:
                raise damaged_log(self.path, f"record {last + 1} is missing")
            if zlib.crc32(block or b"", number & 0xFFFFFFFF) != crc:
                raise damaged_log(self.path, f"record {number} does not match its checksum")
            yield Record(number, batch, block, bool(answer_missing))
            last = max(number, gaps_until)
        if self.snapshots and last < self.position:
            raise damaged_log(self.path, f"it ends at record {last}, but record {self.position} was written")

    def check_acknowledged(self) -> None:
        """Raise `DamagedLog` if the database lacks a record that was acknowledged."""
        if (acknowledged := self.mark.read()) > self.position:
            what = f"it ends at record {self.position}, but record {acknowledged} was acknowledged"
            raise damaged_log(self.path, what)

    def bytes_after(self, number: int) -> int:
        query = "SELECT coalesce(sum(length(block)), 0) FROM log WHERE number > ?"
        return int(self.db.one(query, (number,))[0])

    def select_unlearned(self, entries: Sequence[Entry], classes: Any) -> list[Entry]:
        """Return the entries with new rows. Every other entry gets its answer here."""
        return self.keys.select_unlearned(entries, self.unwritten, classes)

    def check_stream(self, key: str, rows: StreamRows) -> int:
        """How many of the first rows were learned before. Raises `KeyReused` if their content has changed since."""
        if self.keys.has_message_keys(key):
            with self.writing():
                self.keys.convert_message_keys(key, rows.places)
        return self.keys.check_stream(key, rows, self.unwritten)

    def end_of_stream(self, key: str) -> int:
        """The position after the last learned row of a stream; 0 if none was learned."""
        return self.keys.end_of_stream(key, self.unwritten)

    def record_of(self, key: str) -> int | None:
        """The number of the record of a request, by its idempotency key."""
        row = self.db.one("SELECT number FROM answer WHERE key = ?", (key,))
        return None if row is None or row[0] in self.unwritten.rejected else int(row[0])

    def answers_to(self, prefix: str) -> Iterable[tuple[str, Learned]]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        return self.keys.answers_to(prefix, self.unwritten)

    def copy_to(self, target: Path) -> None:
        """Write a copy of the database to one file, atomically. The writer does not wait."""
        # If a kill interrupts a download (GET backup), `remove_leftovers` deletes this file.
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
