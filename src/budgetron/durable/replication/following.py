"""`FollowingHost`: a host that learns the records of another host from its copy, with the same record numbers.

`rebuild` uses it for restores, and `Follower` for a standby.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from budgetron.durable.corrections import Corrections
from budgetron.durable.errors import damaged_log
from budgetron.durable.host import Host
from budgetron.durable.recovery import recover
from budgetron.durable.repairs.staging import put_in_place
from budgetron.durable.replication.objects import CopiedRecord, Segment
from budgetron.durable.requests import Entry, StreamRows
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.snapshots import Snapshots

_NUMBER_STEP = 10**6


class FollowingHost(Host):
    """A host that learns the segments of a copy. It may refuse all other writes meanwhile (`refuse_writes`)."""

    def follow(self, segment: Segment, until: int | None = None) -> None:
        """Log and learn the new records of a segment, up to record `until`."""
        state = self._state
        with state.commit_lock:
            state.check_open()
            log = state.log
            records = [record for record in segment.records
                       if record.number > log.position and (until is None or record.number <= until)]  # fmt: skip
            if not records:
                return
            if records[0].number != log.position + 1:
                raise damaged_log(log.path, f"record {log.position + 1} is missing in the copy")
            entries = [_entry(record) for record in records]
            log.append(entries, replacing=True)
            with state.log_ahead_of_model(), state.learning_lock:
                for record, entry in zip(records, entries, strict=True):
                    if record.block is None:
                        log.note_rejected(entry.number)
                        state.snapshots.count(1)
                    else:
                        self._learn(entry, None)  # the models are equal, so both hosts reject the same records
            state.write_snapshot_if_due()

    def replace_database(self, database: Path) -> None:
        """Continue with a database that was rebuilt from the copy.

        A follower needs this if the copy's new records do not continue the records of this host.
        """
        state = self._state
        with state.commit_lock:
            state.check_open()
            with state.log_ahead_of_model():
                folder = self.directory
                state.log.close()
                new = Log(database.parent)
                position = new.position
                new.close()
                old = put_in_place(database, folder, "replaced", position)
                if old is not None:
                    remove_database(old)  # the old database was built from the copy, so nothing is lost
                state.log = Log(folder)
                state.log.take_over(None)
                state.snapshots = Snapshots(state.log)
                state.corrections = Corrections(state.log, state.snapshots)
                state.n_corrections = state.corrections.count()
                state.hosted = recover(state.log, state.snapshots, None).hosted

    def renumber(self) -> None:
        """Continue with a record number that the other host has not used, not even for records that it did not copy."""
        state = self._state
        with state.commit_lock:
            state.check_open()
            state.snapshots.replace_model(state.hosted.content(), first_number=unused_number(state.log.position))


def unused_number(position: int) -> int:
    """A record number far above the numbers that a former owner may have used: at least `position` + 500,000.

    It is one more than a multiple of a million.
    """
    return ((position + _NUMBER_STEP // 2) // _NUMBER_STEP + 1) * _NUMBER_STEP + 1


def remove_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _entry(record: CopiedRecord) -> Entry:
    """The entry of a copied record, with its idempotency key."""
    payload = record.block or b""
    if record.key is None or record.first is None:
        return Entry(payload, record.key, digest=record.digest)
    if record.places is None:
        places = np.arange(record.first, record.last + 1, dtype=np.int64)
    else:
        places = np.frombuffer(record.places, dtype="<i8").astype(np.int64)
    return Entry(payload, record.key, StreamRows(places, record.digests or b""))
