"""`budgetron keys`: API keys for `budgetron serve`."""

from __future__ import annotations

from pathlib import Path

import click

from budgetron.service import keys


@click.group("keys")
def command() -> None:
    """Make and list API keys for `budgetron serve`. To withdraw one, delete its line: a running service notices."""


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name")
@click.argument("role", type=click.Choice(keys.ROLES))
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Examples a second that it may send.")
def add(file: Path, name: str, role: str, rate: float | None) -> None:
    """Add a key to FILE and show it, this once: the file keeps only its SHA-256."""
    click.echo(keys.add(file, name, role, rate))
    click.echo(f"Added to {file}. Keep the key above: it cannot be shown again.", err=True)


@command.command("list")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def show(file: Path) -> None:
    """Show the names and roles in FILE."""
    for key in keys.read(file):
        click.echo(f"{key.name}  {key.role}" + (f"  {key.rate:g} examples/s" if key.rate else ""))
