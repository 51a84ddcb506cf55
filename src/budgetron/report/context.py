"""`Context`: facts about a run for its report that neither the model nor the validation contains."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from budgetron.version import __version__


def versions() -> dict[str, str]:
    """Return what a result may depend on: the versions of Python and of packages, and the kind of machine."""
    versions = {"budgetron": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a package"
    return versions | {"machine": f"{platform.system()} {platform.machine()}"}


def digest_of(source: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file; empty if it is not a regular file (a pipe, for instance) or cannot be read.

    >>> digest_of("-")
    ''
    """
    try:
        if not os.path.isfile(source):
            return ""
        with open(source, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return ""


@dataclass(frozen=True)
class Context:
    """Facts about a run. Everything has a default; unknown parts are left out of the page.

    Parameters
    ----------
    title : the heading of the page.
    command : the command line of the run.
    source : the file or stream.
    digest : the digest of the input, as `digest_of` returns it.
    seconds : the duration of the run.
    rows, bad_rows : the number of rows read, and the number of rows that could not be used.
    seed : the seed of the order, if the stream was shuffled.
    interrupted : whether the run was stopped before the end of the stream.
    notes : further sentences, such as how the columns were used.
    written : the time of writing, in UTC.
    versions : names and versions; by default those of this process.

    >>> Context(source="mail.csv", seconds=1.5).source
    'mail.csv'
    """

    title: str = "Budgetron report"
    command: str = ""
    source: str = ""
    digest: str = ""
    seconds: float | None = None
    rows: int | None = None
    bad_rows: int = 0
    seed: int | None = None
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    written: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    versions: Mapping[str, str] = field(default_factory=versions)
