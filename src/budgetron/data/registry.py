"""The list of data sets, and the functions that load, download and verify them. `budgetron.data` exports them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from budgetron.data.dataset import DataSet
from budgetron.data.entry import Entry, Examples
from budgetron.data.files import (
    DataCorrupt,
    DataUnavailable,
    cache_folder,
    download,
    is_intact,
    own_folder,
    read_verified,
)
from budgetron.data.sets import flights, mlmrev, school, sentiment, spam
from budgetron.errors import InputError, MissingExtra, input_error, shown

Folder = str | os.PathLike[str]

_ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (school.ENTRY, sentiment.ENTRY, spam.ENTRY, mlmrev.EXAM, mlmrev.CHEM97, flights.ENTRY)
    }
)


def available() -> Mapping[str, Entry]:
    """Return all data sets by name, with description, size, licence, citation and source.

    >>> from budgetron import data
    >>> list(data.available())
    ['school', 'sentiment', 'spam', 'exam', 'chem97', 'flights']
    >>> data.available()["flights"].licence
    'CC0 1.0 (public domain)'
    """
    return _ENTRIES


def load(name: str, *, folder: Folder | None = None, progress: bool = False) -> DataSet:
    """Load a data set by name, in the order of its source.

    Files are read from `folder`, otherwise from the folder in $BUDGETRON_DATA, otherwise from the cache. Files
    that are missing or damaged in the cache are downloaded again; a folder of the user is never written to. Data sets
    that come with a package take no folder.
    """
    entry = _entry("data.load", name)
    _, contents = _read("data.load", entry, folder, progress)
    examples = _parse("data.load", entry, contents)
    return DataSet(
        name=entry.name,
        X=examples.X,
        y=examples.y,
        tasks=examples.tasks,
        feature_names=examples.feature_names,
        description=entry.description,
        licence=entry.licence,
        citation=entry.citation,
        source=entry.source,
        time_ordered=entry.time_ordered,
    )


def fetch(name: str, *, folder: Folder | None = None, progress: bool = False) -> Path | None:
    """Make sure that the files of a data set are on this machine, and return their folder.

    Files in a folder of the user are only verified. Files that are missing or damaged in the cache are downloaded. For
    a data set that comes with a package, make sure that the package is installed and has the right version of the
    data, and return None.
    """
    entry = _entry("data.fetch", name)
    files_folder, contents = _read("data.fetch", entry, folder, progress)
    if entry.package is not None:  # there are no files whose hashes `_read` has checked
        _parse("data.fetch", entry, contents)
    return files_folder


def is_available(name: str, *, folder: Folder | None = None) -> bool:
    """Return whether `load` needs no download: all files are intact, or the package is installed.

    An installed package may contain another version of the data, which `load` rejects.
    """
    entry = _entry("data.is_available", name)
    if entry.package is not None:
        return find_spec(entry.package) is not None
    try:
        # The same search as in `_read`, but nothing is downloaded.
        files_folder = own_folder(folder) or cache_folder()
    except MissingExtra:  # pooch, which knows where the cache is, is not installed
        return False
    return all(is_intact(file, files_folder) for file in entry.files)


def _read(who: str, entry: Entry, folder: Folder | None, progress: bool) -> tuple[Path | None, dict[str, bytes]]:
    """Return the folder and the verified contents of a data set's files; None and {} if it comes with a package.

    If there is no folder of the user, files that are missing or damaged in the cache are downloaded.
    """
    if not entry.files:
        if folder is not None:
            raise InputError(
                f"{who}: {entry.name!r} comes with the package {entry.package} and takes no folder; got "
                f"{os.fspath(folder)!r}. Leave folder out."
            )
        return None, {}
    users_folder = own_folder(folder)
    files_folder = users_folder or cache_folder()
    try:
        return files_folder, {file.name: read_verified(file, files_folder) for file in entry.files}
    except (DataUnavailable, DataCorrupt):
        if users_folder is not None:
            raise
    download(entry.files, files_folder, progress)
    return files_folder, {file.name: read_verified(file, files_folder) for file in entry.files}


def _parse(who: str, entry: Entry, contents: dict[str, bytes]) -> Examples:
    """Return the examples of a data set. Raises `DataCorrupt` if an installed package has another version of them."""
    examples = entry.parse(contents)
    sizes = (*examples.X.shape, len(set(examples.tasks.tolist())), int(examples.y.sum()))
    if sizes != (entry.n, entry.d, entry.k, entry.positives):
        got = "{} × {} with {} tasks and {} positives".format(*sizes)
        raise DataCorrupt(
            f"{who}: {entry.name} should be {entry.n} × {entry.d} with {entry.k} tasks and {entry.positives} "
            f"positives, but is {got}. The package {entry.package} has another version of the data. Install the right "
            "version with: pip install 'budgetron[data]'"
        )
    return examples


def _entry(who: str, name: str) -> Entry:
    if name not in _ENTRIES:
        raise input_error(who, "name", "one of " + ", ".join(_ENTRIES), shown(name))
    return _ENTRIES[name]
