"""`budgetron datasets list | fetch | verify`."""

from __future__ import annotations

import json
import sys

import click

from budgetron import data
from budgetron.data.files import cache_folder, own_folder
from budgetron.errors import InputError

_NAMES = click.argument("names", nargs=-1, type=click.Choice(list(data.available())))
_FROM = click.option(
    "--from", "folder", type=click.Path(), help="A folder of files you already have (never written to)."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List, fetch and verify the data sets.

    Files are taken from --from, else from the folder in $BUDGETRON_DATA, else from the cache.
    """


@command.command("list")
@_FROM
@_JSON
def list_sets(folder: str | None, as_json: bool) -> None:
    """Every set: its size, whether it is here, its licence and citation."""
    names = ("name", "description", "n", "d", "k", "positives", "licence", "citation", "source")
    rows = [
        {field: getattr(entry, field) for field in names} | {"here": data.is_here(name, folder=folder)}
        for name, entry in data.available().items()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        here = "here" if row["here"] else "not here"
        click.secho(f"{row['name']}", bold=True, nl=False)
        click.echo(f"  {row['n']:,} examples, {row['d']:,} features, {row['k']:,} tasks; {here}")
        click.echo(f"  {row['description']}\n  Licence: {row['licence']}\n  Cite: {row['citation']}\n")


@command.command()
@_NAMES
@_FROM
def fetch(names: tuple[str, ...], folder: str | None) -> None:
    """Bring sets to this machine (all of them if none is named) and check every byte."""
    for name in names or _all(folder):
        data.fetch(name, folder=folder, progress=True)
        click.echo(f"{name}: here")


@command.command()
@_NAMES
@_FROM
@_JSON
def verify(names: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """Check sets that are here: SHA-256, size, tasks and label balance. Nothing is downloaded."""
    problems: dict[str, str | None] = {}
    for name in names or _all(folder):
        try:
            by_files = bool(data.available()[name].files)
            data.load(name, folder=(own_folder(folder) or cache_folder()) if by_files else folder)
            problems[name] = None
        except InputError as problem:
            problems[name] = str(problem)
        if not as_json:
            click.echo(f"{name}: {problems[name] or 'intact'}")
    if as_json:
        click.echo(json.dumps(problems))
    if any(problems.values()):
        sys.exit(1)


def _all(folder: str | None) -> list[str]:
    """Every set; with a folder only those that come by files."""
    return [name for name, entry in data.available().items() if folder is None or entry.files]
