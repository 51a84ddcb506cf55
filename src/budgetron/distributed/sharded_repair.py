"""Verify and repair the directory of a `ShardedHost`: its journal, and the log of each shard.

`budgetron verify` and `budgetron repair` call this. The work on a single log is done by `budgetron.durable`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from budgetron.distributed.directory.journal import NAME, Journal
from budgetron.distributed.workers.worker import folder_of
from budgetron.durable.errors import DamagedLog, storage_errors
from budgetron.durable.repairs.repair import copy_keys, repair, rows_around_damage
from budgetron.durable.repairs.staging import Replacement, locked_stage, put_in_place, reported_as
from budgetron.durable.repairs.verify import Verification, verify
from budgetron.durable.storage.log_schema import NAME as LOG
from budgetron.durable.storage.sqlite_file import copy_database

JOURNAL = "journal: "
"""The key of the journal in the results of `repair_sharded`. The command line prints it before what was done."""


def verify_sharded(directory: Path) -> dict[str, Verification]:
    """Check the journal and every shard. Raises `DamagedLog` at the first damage."""
    return {f"{folder.name}: ": verify(folder) for folder in _shard_folders(directory)}


def _shard_folders(directory: Path) -> list[Path]:
    """Check the journal. Returns the folders of the shards that have a log."""
    with tempfile.TemporaryDirectory(prefix="budgetron-") as name, reported_as(Path(name), directory):
        with storage_errors(directory / NAME):
            copy_database(directory / NAME, Path(name) / NAME)
        journal = Journal(Path(name))
        try:
            journal.unfinished()
            journal.point()
            folders = [journal.shards_directory / folder_of(shard) for shard in range(journal.shards)]
        finally:
            journal.db.close()
    return [folder for folder in folders if (folder / LOG).exists()]


def repair_sharded(directory: Path) -> dict[str, Replacement | None]:
    """Repair the journal and every shard. Returns what replaced each of them; None where nothing was damaged."""
    done: dict[str, Replacement | None] = {JOURNAL: None}
    with locked_stage(directory) as stage:
        try:
            folders = _shard_folders(directory)
        except DamagedLog as damage:
            done[JOURNAL] = _repair_journal(directory, stage, damage)
            folders = _shard_folders(directory)
        for folder in folders:
            done[f"{folder.name}: "] = repair(folder)
    return done


def _repair_journal(directory: Path, stage: Path, damage: DamagedLog) -> Replacement:
    """Write a new journal with the requests and keys that can be read."""
    try:
        (stage / "old").mkdir()
        with storage_errors(directory / NAME):
            copy_database(directory / NAME, stage / "old" / NAME)
        old = Journal(stage / "old", checked=False)
    except DamagedLog as error:
        raise DamagedLog(
            f"repair: the journal {str(directory / NAME)!r} cannot be repaired: {error.what}. Replace the whole "
            "directory by a copy that was made while the service was stopped."
        ) from error
    last = 0
    new = Journal(stage, old.shards_directory, old.shards)
    try:
        with new.db.writing():
            # The name must stay, because the keys that the shards have stored contain it.
            new.db.execute("UPDATE about SET name = ?", (old.name,))
            copy_keys(old.db, new.db, 2**62)
            for row in rows_around_damage(old.db, "SELECT * FROM request ORDER BY number"):
                new.db.execute("INSERT OR IGNORE INTO request VALUES (?, ?, ?)", row)
            new.db.execute("DELETE FROM request WHERE crc IS NOT checksum(number, rows)")
            for row in rows_around_damage(old.db, "SELECT * FROM point ORDER BY one"):
                new.db.execute("INSERT OR IGNORE INTO point VALUES (?, ?, ?)", row)
            new.db.execute("DELETE FROM point WHERE crc IS NOT checksum(content)")
            last = max(old.position, new.db.one("SELECT coalesce(max(number), 0) FROM answer")[0], new.position)
            new.db.execute("DELETE FROM sqlite_sequence WHERE name = 'request'")
            new.db.execute("INSERT INTO sqlite_sequence VALUES ('request', ?)", (last,))
    finally:
        old.db.close()
        new.db.close()
    old_journal = put_in_place(stage / NAME, directory, "damaged")
    return Replacement(last, 0, last, last, old_journal, str(damage))
