"""`budgetron keys`: create and list the API keys of `budgetron serve`."""

from __future__ import annotations

from pathlib import Path

import click

from budgetron.service import keys


@click.group("keys")
def command() -> None:
    """Create and list API keys for `budgetron serve`.

    To revoke a key, delete its line in the file; a running service rereads the file within two seconds.
    """


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name")
@click.argument("role", type=click.Choice(keys.ROLES))
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Examples per second that the key may send.")
def add(file: Path, name: str, role: str, rate: float | None) -> None:
    """Add a key to FILE and print it once; the file holds only its SHA-256."""
    click.echo(keys.add(file, name, role, rate))
    click.echo(f"Added to {file}. Store the key above safely: it cannot be shown again.", err=True)


@command.command("list")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def show(file: Path) -> None:
    """Show the names and roles in FILE."""
    for key in keys.read(file):
        click.echo(f"{key.name}  {key.role}" + (f"  {key.rate:g} examples/s" if key.rate else ""))
