"""Verify the directory of a host, a backup, or a copy: make the same checks as opening it, without changing anything.

`budgetron verify` calls this. `verify` works on a temporary copy of the files, so it does not disturb a host that has
the directory open.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.errors import DamagedLog
from budgetron.durable.recovery import recover
from budgetron.durable.repairs.staging import copy_host, copy_log, not_a_backup_error, reported_as
from budgetron.durable.replication.history import plan
from budgetron.durable.replication.rebuild import rebuild
from budgetron.durable.replication.store import is_copy, open_store
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.snapshots import Snapshots


@dataclass(frozen=True)
class Verification:
    """An intact log.

    If the newest snapshot is damaged and the one before it can be used instead, `unusable` describes the damage.
    """

    position: int
    examples: int  # how many the model has learned
    keys: int
    unusable: str = ""


def verify(path: str | os.PathLike[str]) -> Verification:
    """Check a host's directory, a backup file, or the last state of a copy.

    Raises `DamagedLog` if examples are damaged or missing. Examples that the host has learned after a backup, or after
    the last write to a copy, do not count as missing.
    """
    with tempfile.TemporaryDirectory(prefix="budgetron-") as name:
        folder = Path(name)
        if is_copy(path):
            store = open_store(path)
            rebuild(store, plan(store), folder)
            return _recover_and_describe(folder)
        path = Path(path)
        if path.is_dir():
            copy_host(path, folder)
            with reported_as(folder, path):
                return _recover_and_describe(folder)
        try:
            copy_log(path, folder / NAME)
            return _recover_and_describe(folder)
        except DamagedLog as error:
            raise not_a_backup_error("verify", "PATH", path, error) from error


def _recover_and_describe(folder: Path) -> Verification:
    """Recover the model of a copy into memory, and describe it."""
    log = Log(folder)
    try:
        (keys,) = log.db.one("SELECT (SELECT count(*) FROM answer) + (SELECT count(DISTINCT key) FROM stream_block)")
        if not log.snapshots:  # no example was acknowledged, because that requires the first snapshot
            log.check_acknowledged()
            return Verification(log.position, 0, keys)
        recovery = recover(log, Snapshots(log), None)
        return Verification(log.position, int(recovery.hosted.model.n_seen_), keys, recovery.unusable)
    finally:
        log.close()
