"""`budgetron verify`: check the data of a service, or a backup, without changing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from budgetron.errors import StorageError, input_error


@click.command("verify")
@click.argument("path", metavar="PATH")
def command(path: str) -> None:
    """Check the data of a service, or a backup. The service may be running; nothing is changed.

    PATH is the data directory of a service, the directory of one model, a backup file, or the copy of a model (see
    serve --replicate-to). The command checks the log, its snapshots and the idempotency keys, as a service does at its
    start. The exit code is 1 if something is damaged, except a snapshot that is not needed; the message says what to
    do.
    """
    from budgetron.durable.replication.store import is_copy

    damaged = 0
    if is_copy(path):
        locations: list[Path | str] = [path]
    elif (local := Path(path)).is_file():
        locations = [local]
    elif local.is_dir():
        accepted = "the data directory of a service, the directory of a model, or a backup"
        locations = list(model_directories(local, "verify", "PATH", accepted))
    else:
        raise input_error("verify", "PATH", "an existing file or directory, or a URL", repr(path))
    for location in locations:
        try:
            for line in _report(location):
                click.echo(f"{location}: {line}")
        except StorageError as error:
            damaged += 1
            click.echo(f"{location}: DAMAGED. {error}")
    sys.exit(1 if damaged else 0)


def _report(location: Path | str) -> list[str]:
    from budgetron.distributed.sharded_repair import verify_sharded
    from budgetron.durable import verify
    from budgetron.service.model.pending import verify_pending

    # A string is the path or URL of a copy, which has no shards and no pending predictions.
    checked = {"": verify(location)} if isinstance(location, str) else {}
    if isinstance(location, Path):
        checked = verify_sharded(location) if is_sharded(location) else {"": verify(location)}
        if location.is_dir():
            verify_pending(location)
    lines = []
    for name, verified in checked.items():
        counts = f"examples: {verified.examples}, idempotency keys: {verified.keys}, last record: {verified.position}"
        line = f"{name}intact ({counts})."
        if verified.unusable:
            remedy = "It can still be restored: an older snapshot is intact."  # a backup or a copy cannot be repaired
            if isinstance(location, Path) and location.is_dir():
                remedy = f"To replace it: budgetron repair {location} --accept-loss"
            line += f" Damaged, but not needed: {verified.unusable.rstrip('.')}. {remedy}"
        lines.append(line)
    return lines


def is_sharded(directory: Path) -> bool:
    from budgetron.distributed.shard_options import is_sharded_host

    return is_sharded_host(directory)


def model_directories(path: Path, who: str, parameter: str, accepted: str) -> list[Path]:
    """Return the directories of models: the path itself, or the model directories in it.

    If there are no models, `who`, `parameter` and `accepted` are the first parts of the error message.
    """
    from budgetron.durable.ownership import MARK
    from budgetron.durable.storage.log_schema import NAME

    def is_model(folder: Path) -> bool:  # the mark stays even if the database is deleted
        return (folder / NAME).exists() or (folder / MARK).exists() or is_sharded(folder)

    if is_model(path):
        return [path]
    folders = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and is_model(folder)]
    if not folders:
        raise input_error(who, parameter, accepted, f"{str(path)!r}, which contains no model")
    return folders
