"""`budgetron repair`: continue from the last good state of damaged data."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from budgetron.cli.commands.service.verify import is_sharded, model_directories


@click.command("repair")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--accept-loss", is_flag=True, help="Required: rows after the damage are lost.")
def command(directory: Path, accept_loss: bool) -> None:
    """Continue from the last good state of a damaged data directory. Stop the service first.

    DIRECTORY is the data directory of a service, or the directory of one model. Rows that were learned after the damage
    are lost, and so are their idempotency keys: if clients send these rows again, they are learned. The damaged file is
    kept, unless it is pending.sqlite. A backup may contain more: see budgetron restore.
    """
    if not accept_loss:
        click.echo("Nothing was changed. To see what is damaged: budgetron verify DIRECTORY. "
                   "To continue without the lost rows, add --accept-loss.", err=True)  # fmt: skip
        sys.exit(2)
    accepted = "the data directory of a service, or the directory of a model"
    for model_directory in model_directories(directory, "repair", "DIRECTORY", accepted):
        for line in _repair_model(model_directory):
            click.echo(f"{model_directory}: {line}")


def _repair_model(directory: Path) -> list[str]:
    """Repair one model, and return lines that say what was done."""
    from budgetron.distributed.sharded_repair import JOURNAL, repair_sharded
    from budgetron.durable import repair
    from budgetron.service.model.pending import repair_pending

    lines = []
    for name, outcome in (repair_sharded(directory) if is_sharded(directory) else {"": repair(directory)}).items():
        if outcome is None:
            lines.append(f"{name}intact, nothing changed.")
            continue
        # `last_known` is the last record that is known to have been written, `last_good` the last one that is kept.
        lost = outcome.last_known - outcome.last_good
        records = f"the last {lost} record(s) lost, after record {outcome.last_good}" if lost else "no record lost"
        done = f"{outcome.examples} examples learned, {records}"
        if name == JOURNAL:
            done = "requests that were not finished and cannot be read are lost; repeat those that got no answer"
        damaged = f"The damaged file is {outcome.old_database}; delete it when you no longer need it."
        lines.append(f"{name}repaired: {done}. {damaged}")
    if repair_pending(directory):
        lines.append("pending.sqlite was damaged and is deleted: earlier predictions cannot be labelled by their id.")
    return lines
