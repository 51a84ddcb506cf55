"""`Entry` describes a data set in the registry. `Examples` is the result of parsing its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.data.files import RemoteFile


class Examples(NamedTuple):
    """The examples of a data set, in the order of the source."""

    X: Any
    y: NDArray[np.int64]
    tasks: NDArray[Any]
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    It comes from files (downloaded, or in a folder of the user) or from a package of the extra `data`. n, d, k and
    positives are the numbers of examples, features, tasks and positive labels of an intact copy; `load` raises
    `DataCorrupt` if they differ.
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
    parse: Callable[[Mapping[str, bytes]], Examples]  # takes the content of each file by its name
    files: tuple[RemoteFile, ...] = ()
    package: str | None = None
    time_ordered: bool = False
