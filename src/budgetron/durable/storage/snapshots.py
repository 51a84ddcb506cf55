"""The snapshots of a host: model files in the database of the log, and when a new one is due.

The database has at most two snapshots. Recovery can start from either of them, because the log has all records after
the older one. Before the second snapshot, and after a correction, the log also has earlier records. One transaction
writes a snapshot and trims the log.

`Host` and `recovery` call this module. It treats the model as bytes.
"""

from __future__ import annotations

from budgetron.durable.errors import DiskRefused
from budgetron.durable.storage.key_tables import MAX_KEY_BYTES, MAX_KEYS
from budgetron.durable.storage.log import Log

MAX_LOG_BYTES = 64 * 2**20  # if the log since the last snapshot has at least this size, a snapshot is due
_PART_BYTES = 16 * 2**20  # per row; SQLite holds a value in memory, and limits it to 1 GB


class Snapshots:
    """The snapshots of one host. `numbers` has the last record of each snapshot, the newest first."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.numbers = log.snapshots
        self.error: DiskRefused | None = None  # why the last snapshot could not be written; the log grows meanwhile
        self._examples = 0  # learned since the last snapshot
        self._log_bytes = log.bytes_after(max(self.numbers, default=0))

    def read(self, number: int) -> bytes:
        """The bytes of a snapshot; b"" if it is missing."""
        query = "SELECT content FROM snapshot WHERE number = ? ORDER BY part"
        return b"".join(content for (content,) in self._log.db.rows(query, (number,)))

    # ---- when one is due

    def count(self, n_examples: int, n_bytes: int = 0) -> None:
        """Count examples, and bytes of the log, that the last snapshot does not contain."""
        self._examples += n_examples
        self._log_bytes += n_bytes

    def is_due(self, every: int) -> bool:
        return self._examples >= every or self._log_bytes >= MAX_LOG_BYTES

    @property
    def is_behind(self) -> bool:
        """Whether the log has records that the last snapshot does not contain.

        Some of them have no examples: rejected requests, forgotten tasks, and new settings of the operating point.
        """
        return self._log.position > max(self.numbers, default=0)

    # ---- writing

    def write(self, content: bytes) -> None:
        """Write the model file as a snapshot and trim the log, in one transaction."""
        log = self._log
        # Keep the previous snapshot and the log after it: recovery needs them if the new snapshot is damaged.
        before = next((number for number in self.numbers if number < log.position), None)
        with log.writing():
            log.write_unwritten()
            self._put(log.position, content)
            if before is not None:
                self._trim(before)
            log.set_owner("snapshot = ?, previous = ?", log.position, before)
            log.keys.forget(MAX_KEYS, MAX_KEY_BYTES, log.position if before is None else before)
        log.note_written(log.position)
        self._start_counting([log.position] if before is None else [log.position, before])

    def put_corrected(self, content: bytes, base: int) -> None:
        """Replace all snapshots except the one at record `base` by the corrected model, inside an open transaction.

        The log is not trimmed, so its examples after `base` can still be corrected.
        """
        log = self._log
        log.db.execute("DELETE FROM snapshot WHERE number != ?", (base,))
        self._put(log.position, content)
        log.set_owner("snapshot = ?, previous = ?", log.position, base or None)

    def note_corrected(self, base: int) -> None:
        """Note that the transaction of `put_corrected` has succeeded."""
        self._start_counting([self._log.position, *([base] if base else [])])

    def replace_model(self, content: bytes, first_number: int = 0) -> None:
        """Replace the model: delete the old snapshots and the log, and keep the answers to idempotency keys.

        The new snapshot gets the number of the next record, or `first_number` if that is higher.
        """
        log = self._log
        number = max(log.position + 1, first_number)
        with log.writing():
            log.write_unwritten()
            self._put(number, content)
            self._trim(number)  # recovery must not start from a snapshot of the old model
            log.set_owner("position = ?, snapshot = ?, previous = NULL", number, number)
        log.note_written(number)
        self._start_counting([number])

    def _put(self, number: int, content: bytes) -> None:
        db = self._log.db
        db.execute("DELETE FROM snapshot WHERE number = ?", (number,))
        for part, start in enumerate(range(0, len(content), _PART_BYTES)):
            values = (number, part, content[start : start + _PART_BYTES])
            db.execute("INSERT INTO snapshot VALUES (?, ?, ?)", values)

    def _trim(self, oldest: int) -> None:
        """Delete the snapshots before the snapshot `oldest`, and the records that this snapshot contains."""
        self._log.db.execute("DELETE FROM snapshot WHERE number < ?", (oldest,))
        self._log.db.execute("DELETE FROM log WHERE number <= ?", (oldest,))

    def _start_counting(self, numbers: list[int]) -> None:
        """Note that a snapshot is on disk. This is called after every transaction that wrote a snapshot."""
        self._log.db.empty_write_ahead_file()
        self.numbers = self._log.snapshots = numbers
        self._examples = self._log_bytes = 0
        self.error = None
