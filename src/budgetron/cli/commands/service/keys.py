"""`budgetron keys`: create and list the API keys of `budgetron serve`."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from budgetron.service.http import api_keys


@click.group("keys")
def command() -> None:
    """Create and list API keys for `budgetron serve`.

    To revoke a key, delete its line in the file; a running service rereads the file within two seconds.
    """


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name")
@click.argument("role", type=click.Choice(api_keys.ROLES))
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Examples per second that the key may send.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="Last day (UTC) on which the key works.")
@click.option("--model", "models", multiple=True, help="A model that the key may use; repeatable. Default: all.")
def add(
    file: Path, name: str, role: str, rate: float | None, expires: datetime.datetime | None, models: tuple[str, ...]
) -> None:
    """Add a key to FILE and print it once; the file holds only its SHA-256."""
    click.echo(api_keys.add(file, name, role, rate, None if expires is None else expires.date(), tuple(models)))
    click.echo(f"Added to {file}. Store the key above safely: it cannot be shown again.", err=True)


@command.command("list")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def show(file: Path) -> None:
    """Show the names, roles and limits in FILE."""
    for key in api_keys.read_keys(file):
        limits = [f"{api_keys.rate_words(key.rate)} examples/s"] if key.rate else []
        limits += [f"until {key.expires.isoformat()}"] if key.expires else []
        limits += [f"models {', '.join(key.models)}"] if key.models else []
        click.echo("  ".join([key.name, key.role, *limits]))
