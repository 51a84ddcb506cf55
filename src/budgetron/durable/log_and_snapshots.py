"""The write-ahead log and the snapshots of a host, and what the next transaction has to add to them.

    log         all records after the older of the two snapshots, so that recovery can start from either
    snapshots   the model files of the last two; if the newer one is damaged, recovery uses the older
    unwritten   rejected records, and margins for idempotency keys. They are known only after the commit that logged
                the records, and are written with the next commit, which saves an fsync. After a crash, the replay
                computes them again.

`Host` calls this under its commit lock; it is not safe for several threads. It must not touch the model: it gets
the model as bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.answers import Learned, margins_to_bytes
from budgetron.durable.errors import storage_errors
from budgetron.durable.idempotency import MAX_KEY_BYTES, MAX_KEYS, Entry, Unwritten
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.recovery import Recovery
from budgetron.durable.store import Store
from budgetron.errors import StorageError

_PROBE_BYTES = 16 * 2**10  # written to find out whether the disk accepts writes
MAX_LOG_BYTES = 64 * 2**20  # after so much log a snapshot is due, however few the examples


class LogAndSnapshots:
    """The log, the snapshots and the idempotency keys of one host."""

    def __init__(self, store: Store, mark: AcknowledgedMark, found: Recovery) -> None:
        self._store, self._mark = store, mark
        self.position = found.position  # the number of the last record; rejected ones are counted too
        self._snapshots = found.snapshots
        self._since = found.replayed_examples  # examples learned since the last snapshot
        self._log_bytes = store.log_bytes_after(max(found.snapshots, default=0))
        self._unwritten = Unwritten(found.refused, found.answers)
        self.write_error: StorageError | None = None  # of the last commit
        self._failed_bytes = 0

    @property
    def epoch(self) -> int:
        return self._store.epoch

    @property
    def directory(self) -> Path:
        return self._store.path.parent

    # ---- the log

    def append(self, entries: Sequence[Entry]) -> None:
        """Number the entries and write them with their idempotency keys, in one commit that is forced to disk."""
        for number, entry in enumerate(entries, self.position + 1):
            entry.number = number
        size = sum(len(entry.payload) for entry in entries)
        try:
            with self._store.writing():
                self._write_unwritten()
                self._store.append(entries)
        except StorageError as error:
            self.write_error, self._failed_bytes = error, size
            raise
        self.write_error = None
        self._unwritten = Unwritten()
        self.position = entries[-1].number
        self._log_bytes += size
        self._mark.write(self.position)

    def try_to_write(self) -> None:
        """Write as many bytes as the last failed commit had, to find out whether a retry would succeed.

        A small probe alone would report a nearly full disk as ready, and the retry would fail again.
        """
        self._store.try_to_write(_PROBE_BYTES if self.write_error is None else max(_PROBE_BYTES, self._failed_bytes))
        self.write_error = None

    def refused(self, number: int) -> None:
        """Note that the model rejected this record: the next transaction deletes it."""
        self._unwritten.refused.append(number)

    def learned(self, entry: Entry, margins: NDArray[np.float64]) -> None:
        """Note that the model learned this record: the next transaction stores the margins for its key."""
        self._since += len(margins)
        if entry.key is not None:
            self._unwritten.answers[entry.number] = margins_to_bytes(margins)

    def _write_unwritten(self) -> None:
        self._store.remove(self._unwritten.refused)
        self._store.keys.answered(self._unwritten.answers.items())

    # ---- idempotency keys

    def select_unlearned(self, entries: Sequence[Entry], classes: Any) -> list[Entry]:
        """The entries with rows that were not learned before. The other entries are given their answer."""
        return self._store.keys.select_unlearned(entries, self._unwritten, classes)

    def answers_to(self, prefix: str) -> Iterator[tuple[str, Learned]]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        return self._store.keys.answers_to(prefix, self._unwritten)

    # ---- snapshots

    @property
    def has_snapshot(self) -> bool:
        return bool(self._snapshots)

    @property
    def is_ahead(self) -> bool:
        """Whether the last snapshot lacks something."""
        return bool(self._since or self._unwritten.refused or self._unwritten.answers)

    def is_due(self, every: int) -> bool:
        return self._since >= every or self._log_bytes >= MAX_LOG_BYTES

    def snapshot(self, content: bytes) -> None:
        """Write the model file as a snapshot and trim the log, in one transaction."""
        before = self._snapshots[0] if self._snapshots else 0
        with self._store.writing():
            self._write_unwritten()
            self._store.put_snapshot(self.position, content)
            # Keep the previous snapshot and the log after it: recovery needs them if the new snapshot is damaged.
            self._store.trim(before)
            self._store.keys.forget(MAX_KEYS, MAX_KEY_BYTES)
        self._settled(list(dict.fromkeys([self.position, before] if before else [self.position])))

    def replace_model(self, content: bytes) -> None:
        """Replace the model: delete the old snapshots and the log, and keep the answers to idempotency keys."""
        number = self.position + 1
        with self._store.writing():
            self._write_unwritten()
            self._store.put_snapshot(number, content)
            self._store.trim(number)  # a replay must not start from the old model
            self._store.set_position(number)
        self.position = number
        self._settled([number])
        self._mark.write(number)

    def _settled(self, snapshots: list[int]) -> None:
        self._unwritten = Unwritten()
        self._snapshots = snapshots
        self._since = self._log_bytes = 0

    def copy_to(self, target: Path) -> None:
        """Write a copy of everything to one file, atomically. The writer does not wait."""
        partial = target.with_name(f".{target.name}.part")
        with storage_errors(target):
            partial.unlink(missing_ok=True)
            try:
                self._store.copy_to(partial)
                with open(partial, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(partial, target)
            finally:
                partial.unlink(missing_ok=True)

    def close(self) -> None:
        self._store.close()
        self._mark.close()
