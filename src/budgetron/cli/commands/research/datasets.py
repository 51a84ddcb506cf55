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
from budgetron.errors import BudgetronError, input_error

_NAMES = click.argument("names", nargs=-1, type=click.Choice(list(data.available())))
_FROM = click.option(
    "--from", "folder", type=click.Path(), help="Folder of files that you already have; never written to."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List, download, verify and export data sets.

    Files are read from one folder: --from if given, otherwise $BUDGETRON_DATA if set, otherwise the cache. Only the
    cache is filled by downloading.
    """


@command.command("list")
@_FROM
@_JSON
def list_sets(folder: str | None, as_json: bool) -> None:
    """List the data sets with size, licence, citation and whether they are on this machine."""
    names = ("name", "description", "n", "d", "k", "positives", "licence", "citation", "source")
    rows = [
        {field: getattr(entry, field) for field in names} | {"available": data.is_available(name, folder=folder)}
        for name, entry in data.available().items()
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        available = "on this machine" if row["available"] else "not on this machine"
        click.secho(f"{row['name']}", bold=True, nl=False)
        click.echo(f"  {row['n']:,} examples, {row['d']:,} features, {row['k']:,} tasks; {available}")
        click.echo(f"  {row['description']}\n  Licence: {row['licence']}\n  Cite: {row['citation']}\n")


@command.command()
@_NAMES
@_FROM
def fetch(names: tuple[str, ...], folder: str | None) -> None:
    """Download data sets to the cache (all if none is named) and verify their checksums.

    With --from or $BUDGETRON_DATA, files are only verified. Data sets that come with a package are read, to check that
    it is installed and has the right version of the data.
    """
    for name in names or _all(folder):
        data.fetch(name, folder=folder, progress=True)
        click.echo(f"{name}: verified")


@command.command()
@_NAMES
@_FROM
@_JSON
def verify(names: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """Verify data sets on this machine: SHA-256, size, tasks and label balance. Nothing is downloaded."""
    problems: dict[str, str | None] = {}
    for name in names or _all(folder):
        try:
            # Pass the cache as a folder: files in a given folder are verified but never downloaded.
            has_files = bool(data.available()[name].files)
            data.load(name, folder=(own_folder(folder) or cache_folder()) if has_files else folder)
            problems[name] = None
        except BudgetronError as problem:
            problems[name] = str(problem)
        if not as_json:
            click.echo(f"{name}: {problems[name] or 'verified'}")
    if as_json:
        click.echo(json.dumps(problems))
    # Exit code 1: the command ran, and its check failed.
    if any(problems.values()):
        sys.exit(1)


@command.command()
@click.argument("name", type=click.Choice(list(data.available())))
@click.argument("file", type=click.Path(allow_dash=True))
@_FROM
@click.option("--shuffle", type=int, metavar="SEED", help="Shuffle the rows with this seed.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Write only the first N rows (after --shuffle).")
@overwrite_option
def export(name: str, file: str, folder: str | None, shuffle: int | None, rows: int | None, overwrite: bool) -> None:
    """Write a data set as CSV: the features by name, then `task` and `label`. Use - as FILE for standard output.

    One-hot columns (origin=EWR, origin=JFK) are written as one categorical column (origin).
    """
    from scipy import sparse

    path = None if file == "-" else file
    outputs.check("datasets export", "FILE", path, overwrite)
    dataset = data.load(name, folder=folder)
    if sparse.issparse(dataset.X):
        got = f"{name!r}, whose rows are sparse with {dataset.d:,} features"
        remedy = f"Load it in Python with budgetron.data.load({name!r})."
        raise input_error("datasets export", "NAME", "a data set with dense rows", got, remedy)
    if shuffle is not None:
        dataset = dataset.shuffled(shuffle)
    if rows is not None:
        dataset = dataset.take(rows)
    columns = _columns(dataset) | {"task": dataset.tasks.tolist(), "label": dataset.y.tolist()}
    with outputs.text_file(path) as target:
        table = csv.writer(target, lineterminator="\n")
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    if path is not None:
        click.echo(f"{file}: {dataset.n:,} rows, {len(columns):,} columns, {dataset.k:,} tasks")


def _columns(dataset: data.DataSet) -> dict[str, list[Any]]:
    """Return the features as named columns. One-hot groups are merged into one categorical column."""
    names = dataset.feature_names or tuple(f"x{index}" for index in range(dataset.d))
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name.partition("=")[0], []).append(index)
    columns: dict[str, list[Any]] = {}
    for group, indices in groups.items():
        part = dataset.X[:, indices]
        # A one-hot group: columns name=value of 0 and 1, with exactly one 1 per row.
        if len(indices) > 1 and (part.sum(axis=1) == 1).all() and ((part == 0) | (part == 1)).all():
            values = [names[index].partition("=")[2] for index in indices]
            columns[group] = [values[code] for code in part.argmax(axis=1).tolist()]
        else:
            columns |= {names[index]: list(map(_short, dataset.X[:, index].tolist())) for index in indices}
    return columns


def _short(value: float) -> float | int:
    """Drop the decimal point of a whole number, so that the CSV file is smaller."""
    return int(value) if value.is_integer() else value


def _all(folder: str | None) -> list[str]:
    """Return all names; if a folder is given, only the data sets that are files, not those in Python packages."""
    return [name for name, entry in data.available().items() if folder is None or entry.files]
