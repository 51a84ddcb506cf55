"""Restore a backup, a copy or an earlier state: replace the database of a host while no process serves it.

`budgetron restore` calls this. The old database stays beside the new one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from budgetron.durable.errors import DamagedLog
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.recovery import recover
from budgetron.durable.repairs.staging import Replacement, copy_log, locked_stage, not_a_backup_error, put_in_place
from budgetron.durable.replication.copied_versions import fetch_versions
from budgetron.durable.replication.following import unused_number
from budgetron.durable.replication.history import plan
from budgetron.durable.replication.rebuild import cut, rebuild
from budgetron.durable.replication.store import is_copy, open_store
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.durable.versions import FOLDER
from budgetron.errors import StorageError, input_error


def restore(
    backup: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    position: int | None = None,
    at: float | None = None,
) -> Replacement:
    """Replace a host's database by a backup, by a state of a copy, or by an earlier state of a host's directory.

    Parameters
    ----------
    backup : path or URL
        A backup file, the directory of a host (also `directory` itself), or a copy that a `Replicator` has written.
    directory : path
        The directory of the host. It may be damaged, empty or missing.
    position : int, optional
        The last record of the restored state; by default the last record of the backup.
    at : float, optional
        A time in seconds since 1970. The last state that had been copied by this time is restored. For copies only.

    The restored log continues with new record numbers, so that no number is used twice.
    """
    directory = Path(directory)
    # A folder without a database is most likely the folder of several models.
    if not is_copy(backup) and not Path(backup).is_file() and not (Path(backup) / NAME).exists():
        raise input_error("restore", "SOURCE", "a backup, a copy or the directory of a model", repr(os.fspath(backup)),
                          "A service and its copy have one folder per model, such as COPY/default.")  # fmt: skip
    with locked_stage(directory) as stage:
        try:
            copy_end = _fetch(os.fspath(backup), stage, position, at)
            log = Log(stage)
        except DamagedLog as error:
            raise (error if is_copy(backup) else not_a_backup_error("restore", "SOURCE", backup, error)) from error
        try:
            last_good = log.position
            last = max(last_good, copy_end or 0, _last_record(directory))
            log.take_over(None)
            # Since the last write to the copy, its owner may have used more record numbers. So a log that is restored
            # from a copy continues with much higher numbers.
            examples = _renumber(log, last + 1 if copy_end is None else unused_number(last))
            new_position = log.position
        except DamagedLog as error:
            raise (error if is_copy(backup) else not_a_backup_error("restore", "SOURCE", backup, error)) from error
        finally:
            log.close()
        old_database = put_in_place(stage / NAME, directory, "replaced", new_position)
        # If the directory has versions, the versions of the copy are not fetched. Usually the copy was made of this
        # directory, so the versions in the copy are not newer.
        if is_copy(backup) and not (directory / FOLDER).exists():
            fetch_versions(open_store(backup), directory)
    return Replacement(new_position, examples, last_good, last, old_database)


def _fetch(source: str, stage: Path, position: int | None, at: float | None) -> int | None:
    """Write the requested state to a folder. Returns the highest record number of a copy; None for other sources."""
    if is_copy(source):
        store = open_store(source)
        steps = plan(store, position, at)
        rebuild(store, steps, stage)
        return steps.last_used
    if at is not None:
        raise input_error("restore", "--at", "the number of a record, for a directory or a backup", "a time",
                          "Only a copy (serve --replicate-to) has times.")  # fmt: skip
    path = Path(source)
    copy_log(path / NAME if path.is_dir() else path, stage / NAME)
    if position is not None:
        cut(stage, position)
    return None


def _renumber(log: Log, number: int) -> int:
    """Write the model as a snapshot with the record number `number`. Returns how many examples it has learned."""
    if not log.snapshots:  # nothing has been learned yet
        with log.writing():
            log.set_owner("position = ?", number)
        log.note_written(number)
        return 0
    snapshots = Snapshots(log)
    hosted = recover(log, snapshots, None).hosted
    snapshots.replace_model(hosted.content(), first_number=number)
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
