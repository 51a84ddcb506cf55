"""Copy a host's files to a temporary folder to work on them, and put a new database in the place of the old one.

`verify`, `repair`, `restore` and a standby (`Follower`) use it. They never change a database in place: until the last
step, which renames files, an interruption leaves the directory as it was.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.errors import DamagedLog, damaged_log, storage_errors
from budgetron.durable.ownership import MARK, TEMPORARY, AcknowledgedMark, DirectoryLock, make_private, remove_leftovers
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.sqlite_file import copy_database
from budgetron.errors import error_message
from budgetron.persist.disk import sync_folder


@dataclass(frozen=True)
class Replacement:
    """A new database in the place of the old one."""

    position: int  # the last record number of the new log
    examples: int  # how many the model has learned
    last_good: int  # the last record that the new database contains
    last_known: int  # the last record that is known to have been written
    old_database: Path | None  # where it is now; None if there was none
    damage: str = ""


@contextmanager
def locked_stage(directory: Path) -> Iterator[Path]:
    """Lock a directory that no process serves, and yield a new temporary folder in it."""
    with storage_errors(directory / "lock"):
        make_private(directory)
        lock = DirectoryLock(directory)
    stage = directory / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        remove_leftovers(directory)
        with storage_errors(stage):
            make_private(stage)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        lock.release()


def copy_host(directory: Path, folder: Path) -> None:
    """Copy the database of a host, which may be in use, and its mark: the number of the last acknowledged record."""
    make_private(folder)
    mark = directory / MARK
    # Copy the mark first. The host may commit between the two copies, and a mark that is ahead of the database means
    # damage.
    if mark.is_file():
        shutil.copyfile(mark, folder / MARK)
    if not (directory / NAME).is_file():
        raise damaged_log(directory / NAME, "it is missing")
    copy_log(directory / NAME, folder / NAME)


def copy_log(source: Path, target: Path) -> None:
    """Copy a database, which may be in use. Raise an error if it lacks the tables of a host.

    SQLite itself accepts even an empty file, as a new database.
    """
    with storage_errors(source):
        copy_database(source, target)
        copy = sqlite3.connect(target)
        try:
            tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
        finally:
            copy.close()
    if not {"owner", "log", "snapshot", "answer"} <= tables:
        raise damaged_log(source, "it does not have the tables of a host")


@contextmanager
def reported_as(folder: Path, directory: Path) -> Iterator[None]:
    """In error messages about damage, name the original directory instead of the temporary folder with its copy."""
    try:
        yield
    except DamagedLog as error:
        raise DamagedLog(str(error).replace(str(folder), str(directory)), error.what) from error.__cause__


def put_in_place(database: Path, directory: Path, aside: str, position: int = 0) -> Path | None:
    """Move a closed database into a directory. Returns the new path of the old database; None if there was none.

    The old database of that name is renamed to `aside` with a number. The record number `position` is noted as
    acknowledged, so that it is not used again even if this database is lost, too.
    """
    old, old_database = directory / database.name, None
    with storage_errors(old):
        if old.exists():
            number = next(n for n in range(1, 10**6) if not (directory / f"{aside}-{n}.sqlite").exists())
            old_database = directory / f"{aside}-{number}.sqlite"
            # Move the write-ahead file first. If the process is killed after this step, the database without that file
            # is behind `acknowledged`, and opening it reports the damage.
            if (wal := Path(f"{old}-wal")).exists() and wal.stat().st_size:
                os.replace(wal, f"{old_database}-wal")
            os.replace(old, old_database)
        for suffix in ("-wal", "-shm"):  # SQLite would apply these to the new database
            Path(f"{old}{suffix}").unlink(missing_ok=True)
        os.replace(database, old)
        if position:
            mark = AcknowledgedMark(directory)
            mark.write(position)
            mark.close()
        sync_folder(directory)
    return old_database


def not_a_backup_error(who: str, parameter: str, backup: str | os.PathLike[str], error: DamagedLog) -> DamagedLog:
    """The error for a damaged backup, or for a file that is not a backup."""
    return DamagedLog(
        error_message(who, parameter, "an intact file from GET /v1/backup or Host.backup",
                      f"{os.fspath(backup)!r}: {error.what or error}",
                      "Choose another backup. A model file is uploaded with PUT /v1/snapshot instead.")
    )  # fmt: skip
