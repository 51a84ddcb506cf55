"""Repair a damaged host: go back to its last good state. Later records are lost.

`budgetron repair` calls this while no process serves the directory. The damaged database is kept, because other tools
may be able to read more of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgetron.durable.errors import DamagedLog
from budgetron.durable.recovery import Recovery, from_snapshot, replay
from budgetron.durable.repairs.staging import Replacement, copy_host, locked_stage, put_in_place
from budgetron.durable.repairs.verify import verify
from budgetron.durable.storage.key_tables import CHECKSUMS
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.log_schema import NAME, TRAIL_CHECKSUM
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.durable.storage.sqlite_file import SqliteFile
from budgetron.errors import InputError


def repair(directory: str | os.PathLike[str]) -> Replacement | None:
    """Write a new database with the last good state of a damaged one. Returns None if nothing is damaged.

    Raises `DamagedLog` if there is no good state. Then only a backup helps.
    """
    directory = Path(directory)
    with locked_stage(directory) as stage:
        try:
            if not (unusable := verify(directory).unusable):
                return None
            damage = unusable
        except DamagedLog as error:
            damage = str(error)
        try:
            copy_host(directory, stage / "old")
            old = Log(stage / "old", checked=False)
            try:
                recovery = _last_good_state(old)
                # The number of an acknowledged record must not be used again, even if the record is lost.
                last = max(old.position, old.mark.read(), recovery.position)
                position = _write(stage / "new", old, recovery, last)
            finally:
                old.close()
        except (DamagedLog, InputError) as error:
            raise _no_good_state_error(directory, error) from error
        old_database = put_in_place(stage / "new" / NAME, directory, "damaged", position)
    return Replacement(position, int(recovery.hosted.model.n_seen_), recovery.position, last, old_database, damage)


def _last_good_state(old: Log) -> Recovery:
    recovery = from_snapshot(old, Snapshots(old), None)
    # The replay stops at the first damaged record. The model before that record is the last good state.
    with suppress(DamagedLog):
        replay(old, recovery)
    return recovery


def _no_good_state_error(directory: Path, error: Exception) -> DamagedLog:
    what = getattr(error, "what", "") or "it has no snapshot"
    return DamagedLog(
        f"repair: {str(directory / NAME)!r} cannot be repaired: {what}. Only a backup helps: budgetron restore BACKUP "
        f"{directory}. To start with an empty model instead, move the directory away: mv {directory} "
        f"{directory}.damaged"
    )


def _write(folder: Path, old: Log, recovery: Recovery, last: int) -> int:
    """Write the model, the idempotency keys and the audit trail to a new database. Returns its position."""
    folder.mkdir(mode=0o700)
    new = Log(folder)
    try:
        # Keep the old epoch. The log of a shard accepts only a coordinator whose epoch is higher than the stored one,
        # and a repair must not change which coordinators are accepted.
        new.take_over(max(1, old.epoch))
        with new.writing():
            copy_keys(old.db, new.db, recovery.position)
            copy_trail(old.db, new.db)
            new.keys.store_margins(old.unwritten.answers.items())
            new.keys.remove(old.unwritten.rejected)
        Snapshots(new).replace_model(recovery.hosted.content(), first_number=last + 1)
        return new.position
    finally:
        new.close()


def copy_keys(old: SqliteFile, new: SqliteFile, last: int) -> None:
    """Copy the idempotency keys of the records up to `last`, except damaged ones."""
    for table, expression in CHECKSUMS.items():
        query = f"SELECT * FROM {table} NOT INDEXED WHERE crc IS {expression} AND number <= ? ORDER BY rowid"
        for row in rows_around_damage(old, query, (last,)):
            new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def copy_trail(old: SqliteFile, new: SqliteFile) -> None:
    """Copy the audit trail of corrections, except damaged lines."""
    query = f"SELECT * FROM correction NOT INDEXED WHERE crc IS {TRAIL_CHECKSUM} ORDER BY rowid"
    for row in rows_around_damage(old, query):
        new.execute(f"INSERT OR IGNORE INTO correction VALUES ({', '.join('?' * len(row))})", row)


def rows_around_damage(db: SqliteFile, query: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The readable rows of an ordered query.

    Reads forwards from the first row. If a page is damaged, also reads backwards from the last row to that page.
    """
    for direction in ("ASC", "DESC"):
        with suppress(DamagedLog):
            yield from db.rows(f"{query} {direction}", values)
            return
