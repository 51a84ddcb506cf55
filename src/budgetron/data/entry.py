"""What the registry knows of a set before loading it, and what reading it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.data.files import RemoteFile


class Examples(NamedTuple):
    """The examples of a set, in the order of their source."""

    X: Any
    y: NDArray[np.int64]
    tasks: NDArray[Any]
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True)
class Entry:
    """One set of the registry.

    It comes either by files (downloaded, or from one's own folder) or by a package of the extra `data`.
    n, d, k and positives are what a right copy holds; `load` refuses any other.
    """

    name: str
    description: str
    licence: str
    citation: str
    source: str
    n: int
    d: int
    k: int
    positives: int
    read: Callable[[Mapping[str, bytes]], Examples]  # from the content of each file, by the file's name
    files: tuple[RemoteFile, ...] = ()
    package: str | None = None
    time_ordered: bool = False
