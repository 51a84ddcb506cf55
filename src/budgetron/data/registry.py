"""The closed list of data sets, and the one way to load any of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from budgetron.data import flights, mlmrev, school, sentiment, spam
from budgetron.data.dataset import DataSet
from budgetron.data.entry import Entry
from budgetron.data.files import (
    DataCorrupt,
    cache_folder,
    download,
    is_intact,
    own_folder,
    read,
)
from budgetron.errors import MissingExtra, refusal, refuse, shown

Folder = str | os.PathLike[str] | None

_ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (school.ENTRY, sentiment.ENTRY, spam.ENTRY, mlmrev.EXAM, mlmrev.CHEM97, flights.ENTRY)
    }
)


def available() -> Mapping[str, Entry]:
    """Every set by name: what it is, its size, its licence, its citation and where it comes from.

    >>> from budgetron import data
    >>> list(data.available())
    ['school', 'sentiment', 'spam', 'exam', 'chem97', 'flights']
    >>> data.available()["flights"].licence
    'CC0 1.0 (public domain)'
    """
    return _ENTRIES


def load(name: str, *, folder: Folder = None, progress: bool = False) -> DataSet:
    """One set by name, in the order of its source.

    The files are taken from `folder`, else from the folder in $BUDGETRON_DATA, else from the cache, which
    downloads what it lacks. Sets that come by pip need no folder.
    """
    entry = _entry("data.load", name)
    files_folder = fetch(name, folder=folder, progress=progress)
    contents = {file.name: read(file, files_folder) for file in entry.files} if files_folder else {}
    examples = entry.read(contents)
    found = (*examples.X.shape, len(set(examples.tasks.tolist())), int(examples.y.sum()))
    if found != (entry.n, entry.d, entry.k, entry.positives):
        accepted = f"{entry.n} × {entry.d} with {entry.k} tasks and {entry.positives} positives"
        came = "{} × {} with {} and {}".format(*found)
        remedy = f"Package {entry.package} holds another version of the data."
        raise DataCorrupt(refusal("data.load", name, accepted, came, remedy))
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


def fetch(name: str, *, folder: Folder = None, progress: bool = False) -> Path | None:
    """Make sure that the files of a set are here; the folder that holds them (None for those by pip).

    A folder of one's own is verified and never written to; the cache is filled by downloading.
    """
    entry = _entry("data.fetch", name)
    if not entry.files:
        if folder is not None:
            accepted = f"left out for {name!r}, which comes with package {entry.package}"
            raise refuse("data.fetch", "folder", accepted, shown(os.fspath(folder)))
        return None
    own = own_folder(folder)
    if own is None:
        own = cache_folder()
        download(entry.files, own, progress)
    for file in entry.files:
        read(file, own)
    return own


def is_here(name: str, *, folder: Folder = None) -> bool:
    """Whether `load` would succeed without a download: every file intact, or the package installed."""
    entry = _entry("data.is_here", name)
    if entry.package is not None:
        return find_spec(entry.package) is not None
    try:
        where = own_folder(folder) or cache_folder()
    except MissingExtra:  # pooch, which knows the cache, is not installed
        return False
    return all(is_intact(file, where) for file in entry.files)


def _entry(who: str, name: str) -> Entry:
    if name not in _ENTRIES:
        raise refuse(who, "name", "one of " + ", ".join(_ENTRIES), shown(name))
    return _ENTRIES[name]
