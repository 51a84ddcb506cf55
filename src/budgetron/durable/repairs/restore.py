"""Restore a backup: replace the database of a host, intact or damaged, while no process serves it.

`budgetron restore` calls this. The old database is kept beside the new one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from budgetron.durable.errors import DamagedLog
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.recovery import recover
from budgetron.durable.repairs.staging import Replaced, copy_log, not_a_backup, owned, put_in_place
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import StorageError


def restore(backup: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Replaced:
    """Replace a host's database by a backup. Record numbers continue after the old ones, so that none is used twice."""
    backup, directory = Path(backup), Path(directory)
    with owned(directory) as stage:
        try:
            copy_log(backup, stage / NAME)
            log = Log(stage)
        except DamagedLog as error:
            raise not_a_backup(backup, error) from error
        try:
            good = log.position
            last = max(good, _last_record(directory))
            log.take_over(None)
            examples = _renumber(log, last + 1)
            position = log.position
        except DamagedLog as error:
            raise not_a_backup(backup, error) from error
        finally:
            log.close()
        kept = put_in_place(stage / NAME, directory, "replaced", position)
    return Replaced(position, examples, good, last, kept)


def _renumber(log: Log, number: int) -> int:
    """Give the state of a log the number of a new record. Returns the examples that its model has seen."""
    if not log.snapshots:  # nothing has been learned yet
        with log.writing():
            log.set_owner("position = ?", number)
        log.written(number)
        return 0
    snapshots = Snapshots(log)
    hosted = recover(log, snapshots, None).hosted
    snapshots.replace_model(hosted.content(), least=number)
    return int(hosted.model.n_seen_)


def _last_record(directory: Path) -> int:
    """The last record number that the directory has used, as far as it can be read."""
    if (directory / NAME).is_file():
        with suppress(StorageError):
            log = Log(directory, checked=False)
            try:
                return max(log.position, log.mark.read())
            finally:
                log.close()
    mark = AcknowledgedMark(directory)
    try:
        return mark.read()
    finally:
        mark.close()
