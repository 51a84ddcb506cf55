"""`budgetron datasets`: list, download, verify and export the data sets of `budgetron.data`.

A folder given with --from belongs to the user. No command here writes to it.
"""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

import click

from budgetron import data
from budgetron.cli import outputs
from budgetron.cli.options import overwrite_option
from budgetron.data.files import cache_folder, own_folder
from budgetron.errors import BudgetronError, refuse

_NAMES = click.argument("names", nargs=-1, type=click.Choice(list(data.available())))
_FROM = click.option(
    "--from", "folder", type=click.Path(), help="Folder of files that you already have; never written to."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List, download, verify and export data sets.

    Files are searched in --from, then in the folder $BUDGETRON_DATA, then in the cache.
    """


@command.command("list")
@_FROM
@_JSON
def list_sets(folder: str | None, as_json: bool) -> None:
    """List the data sets: size, whether it is on this machine, licence and citation."""
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
    """Download data sets (all of them if none is named) and verify their checksums."""
    for name in names or _all(folder):
        data.fetch(name, folder=folder, progress=True)
        click.echo(f"{name}: here")


@command.command()
@_NAMES
@_FROM
@_JSON
def verify(names: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """Verify data sets on this machine: SHA-256, size, tasks and label balance. Nothing is downloaded."""
    problems: dict[str, str | None] = {}
    for name in names or _all(folder):
        try:
            # Without a folder, a data set that consists of files is read from the cache, so that nothing is downloaded.
            by_files = bool(data.available()[name].files)
            data.load(name, folder=(own_folder(folder) or cache_folder()) if by_files else folder)
            problems[name] = None
        except BudgetronError as problem:
            problems[name] = str(problem)
        if not as_json:
            click.echo(f"{name}: {problems[name] or 'intact'}")
    if as_json:
        click.echo(json.dumps(problems))
    if any(problems.values()):
        sys.exit(1)


@command.command()
@click.argument("name", type=click.Choice(list(data.available())))
@click.argument("file", type=click.Path(allow_dash=True))
@_FROM
@click.option("--shuffle", type=int, metavar="SEED", help="Shuffle the rows with this seed.")
@click.option("--rows", type=click.IntRange(min=1), help="Write only this many rows.")
@overwrite_option
def export(
    name: str, file: str, folder: str | None, shuffle: int | None, rows: int | None, overwrite: bool
) -> None:
    """Write a data set as CSV: the features by name, then `task` and `label`. A FILE of - is standard output.

    One-hot columns (origin=EWR, origin=JFK) are written as one categorical column (origin).
    """
    from scipy import sparse

    path = None if file == "-" else file
    outputs.check("datasets export", "FILE", path, overwrite)
    found = data.load(name, folder=folder)
    if sparse.issparse(found.X):
        accepted = "a data set with dense rows"
        raise refuse("datasets export", "NAME", accepted, f"{name!r}, whose rows are sparse with {found.d:,} features")
    found = found if shuffle is None else found.shuffled(shuffle)
    found = found if rows is None else found.take(rows)
    columns = _columns(found) | {"task": found.tasks.tolist(), "label": found.y.tolist()}
    with outputs.text_file(path) as target:
        table = csv.writer(target, lineterminator="\n")
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    if path is not None:
        click.echo(f"{file}: {found.n:,} rows, {len(columns):,} columns, {found.k:,} tasks")


def _columns(found: data.DataSet) -> dict[str, list[Any]]:
    """The features as named columns; one-hot groups are merged into one categorical column."""
    names = found.feature_names or tuple(f"x{place}" for place in range(found.d))
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name.partition("=")[0], []).append(place)
    columns: dict[str, list[Any]] = {}
    for group, places in groups.items():
        part = found.X[:, places]
        if len(places) > 1 and (part.sum(axis=1) == 1).all() and ((part == 0) | (part == 1)).all():
            values = [names[place].partition("=")[2] for place in places]
            columns[group] = [values[code] for code in part.argmax(axis=1).tolist()]
        else:
            columns |= {names[place]: list(map(_short, found.X[:, place].tolist())) for place in places}
    return columns


def _short(value: float) -> float | int:
    """Drop the decimal point of a whole number, so that the CSV file is smaller."""
    return int(value) if value.is_integer() else value


def _all(folder: str | None) -> list[str]:
    """Every data set; with a folder only those that consist of files."""
    return [name for name, entry in data.available().items() if folder is None or entry.files]
