"""What a report says of a run that neither the model nor the figures know."""

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
    """The versions that a result may depend on."""
    found = {"budgetron": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found | {"machine": f"{platform.system()} {platform.machine()}"}


def digest_of(source: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file as a report has it; nothing where it is no file that can be read again.

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
    """Where a run came from. Everything has a default; what is not known is left out of the page.

    Parameters
    ----------
    title : the heading of the page.
    command : the command line that made the run.
    source : the file or stream.
    digest : of the input, such as `digest_of` gives.
    seconds : how long the run took.
    rows, bad_rows : how many rows were read, and how many of them could not be used.
    seed : of the order, if it was shuffled.
    interrupted : whether the run was stopped before the end of its stream.
    notes : further sentences, such as which columns were used and how.
    written : when, in UTC.
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
