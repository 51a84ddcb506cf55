"""`budgetron restore`: replace what a service has on disk by a backup."""

from __future__ import annotations

from pathlib import Path

import click

from budgetron.cli.commands.verify import is_sharded
from budgetron.errors import refuse


@click.command("restore")
@click.argument("backup", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def command(backup: Path, directory: Path) -> None:
    """Replace a model on disk by a backup. Stop the service first.

    BACKUP is a file from GET /v1/backup or Host.backup. DIRECTORY is the directory of one model, for example
    DATA/default; it may be damaged, empty or missing. Rows that were learned after the backup are lost, and so are
    their idempotency keys: if clients send them again, they are learned. The old file is kept.
    """
    from budgetron.durable import restore
    from budgetron.service.pending import forget_labels_after

    if is_sharded(directory):
        raise refuse("restore", "DIRECTORY", "that of a model in one piece", f"{str(directory)!r}, a model in shards",
                     "Replace the whole directory by a copy that was made while the service was stopped.")  # fmt: skip
    if directory.is_dir() and any((folder / "host.sqlite").exists() for folder in directory.iterdir()):
        raise refuse("restore", "DIRECTORY", "the directory of one model", f"{str(directory)!r}, which contains models",
                     f"Name the model, for example {directory / 'default'}.")  # fmt: skip
    done = restore(backup, directory)
    forget_labels_after(directory, done.last_good)
    click.echo(f"{directory}: restored: {done.examples} examples learned.")
    if lost := done.last_known - done.last_good:
        click.echo(f"The last {lost} record(s), after record {done.last_good}, are not in the backup: send them again.")
    if done.kept is not None:
        click.echo(f"The old file is {done.kept}; delete it when you do not need it any more.")
