"""Read the records that were added to the database of a host since the last copy.

`Replicator` calls `read_changes`, which reads only committed records. It uses a separate connection, so the host does
not wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from budgetron.durable.errors import storage_errors
from budgetron.durable.replication.objects import CopiedRecord

SEGMENT_BYTES = 16 * 2**20  # a segment ends with the first block that makes it larger than this


@dataclass(frozen=True)
class CopyPosition:
    """How far the copy goes. After a new snapshot or a correction, the copy needs a new base."""

    position: int  # the last record
    batch: int  # the first record of the commit that the last record belongs to
    snapshot: int  # the newest snapshot
    corrections: int  # the last line of the audit trail of corrections


@dataclass
class Changes:
    """The records since the last copy. `copied` is the state after these changes."""

    copied: CopyPosition
    oldest: int  # the older of the two snapshots: the earliest state that the database can be cut back to
    end: int  # the last record of the database; after `copied.position` if one segment could not hold all records
    follows: bool = False  # whether the records lead from the last copy to this state without a gap
    rejected: list[int] = field(default_factory=list)
    records: list[CopiedRecord] = field(default_factory=list)


def read_changes(database: Path, since: CopyPosition | None) -> Changes | None:
    """Read the changes since the last copy; None before the first snapshot, when nothing is acknowledged yet."""
    with _reading(database) as db:
        position, snapshot, previous = db.execute("SELECT position, snapshot, previous FROM owner").fetchone()
        if snapshot is None:
            return None
        (corrections,) = db.execute("SELECT coalesce(max(number), 0) FROM correction").fetchone()
        oldest = snapshot if previous is None else previous
        if since is not None and since.corrections == corrections and since.position <= position:
            # Whether a record was rejected is known only after its commit, and is written with the next commit.
            query = "SELECT number FROM log WHERE number >= ? AND number <= ? AND block IS NULL"
            rejected = [number for (number,) in db.execute(query, (since.batch, since.position))]
            records, batch = _records(db, since)
            last = records[-1].number if records else since.position
            if last == position or records:
                copied = CopyPosition(last, batch, snapshot, corrections)
                return Changes(copied, oldest, position, True, rejected, records)
            # The log no longer has the record after the last copy, because it was trimmed. Only a new base closes this
            # gap.
        row = db.execute("SELECT batch FROM log WHERE number = ?", (position,)).fetchone()
        copied = CopyPosition(position, position + 1 if row is None else row[0], snapshot, corrections)
        return Changes(copied, oldest, position)


def _records(db: sqlite3.Connection, since: CopyPosition) -> tuple[list[CopiedRecord], int]:
    """The consecutive records after the last copy, up to the first that makes them larger than `SEGMENT_BYTES`.

    Also returns `batch`: the first record of the commit that the last of these records belongs to.
    """
    query = (
        "SELECT log.number, log.batch, log.block, answer.key, answer.digest, stream.key, stream.first, stream.last, "
        "stream.places, stream.digests FROM log LEFT JOIN answer ON answer.number = log.number "
        "LEFT JOIN stream_block AS stream ON stream.number = log.number WHERE log.number > ? ORDER BY log.number"
    )
    records: list[CopiedRecord] = []
    size, batch = 0, since.batch
    for number, its_batch, block, key, digest, stream, first, last, places, digests in db.execute(
        query, (since.position,)
    ):
        expected = (records[-1].number if records else since.position) + 1
        if number != expected or size > SEGMENT_BYTES:
            break
        if stream is not None:
            records.append(CopiedRecord(number, block, stream, b"", first, last, places, digests))
        else:
            records.append(CopiedRecord(number, block, key, digest or b""))
        size, batch = size + len(block or b""), its_batch
    return records, batch


@contextmanager
def _reading(database: Path) -> Iterator[sqlite3.Connection]:
    with storage_errors(database):
        db = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10.0)
        try:
            db.execute("BEGIN")
            yield db
        finally:
            db.close()
