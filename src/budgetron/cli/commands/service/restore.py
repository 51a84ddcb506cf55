"""`budgetron restore`: replace a model in a service's data directory by a backup, or by an earlier state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from budgetron.cli.commands.service.verify import is_sharded
from budgetron.errors import input_error, shown


@click.command("restore")
@click.argument("backup", metavar="SOURCE")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--at", metavar="TIME|POSITION", help="The point to go back to: a record number, or a time for a copy.")
@click.option("--list", "listing", is_flag=True, help="Only list the points of a copy.")
def command(backup: str, directory: Path | None, at: str | None, listing: bool) -> None:
    """Replace a model on disk by a backup or by an earlier state. Stop the service first.

    SOURCE is a file from GET /v1/backup or Host.backup; the copy of a model that serve --replicate-to has written, for
    example URL/default; or the directory of a model, which may be DIRECTORY itself. DIRECTORY is the directory of one
    model, for example DATA/default; it may be damaged, empty or missing.

    POSITION is the number of the last record to keep. TIME is a time such as 2026-11-17T12:30:00, in UTC unless it has
    an offset; the model returns to the last state that was copied before that time. Rows that were learned after that
    point are lost, and so are their idempotency keys: if clients send these rows again, they are learned. The old file
    is kept.
    """
    from budgetron.durable import restore
    from budgetron.durable.replication.store import is_copy
    from budgetron.service.model.pending import forget_labels_after

    if listing:
        _list_points(backup)
        return
    if directory is None:
        raise input_error(
            "restore", "DIRECTORY", "given", "none", "Name the directory of the model, such as DATA/default."
        )
    if is_sharded(directory):
        raise input_error(
            "restore",
            "DIRECTORY",
            "the directory of a model without shards",
            f"{str(directory)!r}, a model in shards",
            "Replace the whole directory by a copy that was made while the service was stopped.",
        )
    if directory.is_dir() and any((folder / "host.sqlite").exists() for folder in directory.iterdir()):
        raise input_error(
            "restore",
            "DIRECTORY",
            "the directory of one model",
            f"{str(directory)!r}, which contains models",
            f"Name the model, for example {directory / 'default'}.",
        )
    # A number is a record, anything else a time.
    if at is None or at.isdecimal():
        outcome = restore(backup, directory, position=None if at is None else int(at))
    else:
        outcome = restore(backup, directory, at=_seconds(at))
    # Predictions that were labelled after the restored state may be labelled again.
    forget_labels_after(directory, outcome.last_good)
    click.echo(f"{directory}: restored: {outcome.examples} examples learned.")
    if lost := outcome.last_known - outcome.last_good:
        # In a copy, the record numbers of each new owner start after another multiple of a million. So the difference
        # of two record numbers is not a number of records.
        which = f"Records after record {outcome.last_good}" if is_copy(backup) else (
            f"The last {lost} record(s), after record {outcome.last_good},")  # fmt: skip
        where = "not in the backup" if at is None else "not restored"
        click.echo(f"{which} are {where}: send them again.")
    if outcome.old_database is not None:
        click.echo(f"The old file is {outcome.old_database}; delete it when you no longer need it.")


def _seconds(text: str) -> float:
    """Parse a time to seconds since 1970. Without an offset it is UTC, as in the log of the service."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise input_error(
            "restore", "--at", "a record number, or a time such as 2026-11-17T12:30:00", shown(text)
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _list_points(source: str) -> None:
    from budgetron.durable.replication.history import read_runs, shown_time
    from budgetron.durable.replication.store import is_copy, open_store

    if not is_copy(source):
        raise input_error(
            "restore", "--list", "given with a copy", shown(source), "A backup has one state, its last one."
        )
    for run in read_runs(open_store(source)):
        lost = "  (objects after this are missing)" if run.missing else ""
        click.echo(f"{shown_time(run.base.at)}  to  {shown_time(run.last_object.at)}  "
                   f"records {run.base.first_record} to {run.last_object.last_record}{lost}")  # fmt: skip
