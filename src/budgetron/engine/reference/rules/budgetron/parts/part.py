"""The interface `Part` that all parts of a Budgetron implement, and `Seen`, an example with its features.

A part holds one or more beliefs: models of the same stream, each with its own margin f. The rule mixes the beliefs of
all parts, weighted by how well they predict (`mixture`), and uses parts only through this interface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Instance


@dataclass
class Seen:
    """One example: its features, computed once for all parts, and the rows of weights that its margin depends on."""

    x: Instance
    task_id: int
    row: Array  # the columns that parts for dense rows see
    linear: Array  # these d columns, standardised and divided by √d, and 1 for the bias; empty without such parts
    banks: list[Array]  # for each bank, cos and sin of each frequency in turn; none without such parts
    own_row: Array  # the row of the task itself
    related: list[tuple[float, int, Array]] = field(default_factory=list)
    """(coefficient, task id, row) of every related task, or (coefficient, cluster, row) of the task's cluster. f
    contains coefficient · (margin of the own weights in the row). On a complete graph the only related task is the task
    itself."""
    only_linear: bool = False  # whether `terms` is asked for terms of the linear features only


SHARED, OWN, RELATED = range(3)
"""Where a term of f comes from: weights of all tasks, of the task itself, or of tasks that it is related to."""
SOURCES = ("shared", "own", "related")


class Terms(NamedTuple):
    """f of every belief as a sum of terms, by source."""

    columns: Array  # (3, beliefs, outputs, n): the term of each of the n features; the last feature is the constant
    fourier: Array  # (3, beliefs, outputs): the sum of the terms of all Fourier features

    @classmethod
    def zeros(cls, beliefs: int, outputs: int, n: int) -> Terms:
        return cls(np.zeros((len(SOURCES), beliefs, outputs, n)), np.zeros((len(SOURCES), beliefs, outputs)))


def source_of(e: Seen, row: Array) -> int:
    """Return OWN if a row of `e.related` is that of the task itself, otherwise RELATED."""
    return OWN if row is e.own_row else RELATED


class Part(Protocol):
    """One or more beliefs. `margins` is called before `learn`, with the same `Seen` object."""

    count: int  # number of beliefs
    row_width: int  # how many numbers the part has in the row of a task
    at: int  # where these numbers begin in the row
    frequencies: int  # random frequencies in use; 0 for parts without Fourier features
    max_frequencies: int  # how many frequencies the part may use within its planned bytes
    frequency_limit: int  # how many frequencies the part may use if there are spare bytes
    is_linear: bool  # whether f is linear in the columns; also True for the table of sparse rows
    sees_entries: bool  # whether the features of the part are the entries of a sparse row, and not columns

    @property
    def learns_slowly(self) -> bool:
        """Whether the part often predicts badly in its first 1,000 or so examples."""

    def useful_frequencies(self, weight: float, seen: int) -> int:
        """Return how many frequencies the part should use after `seen` examples, if there are bytes for them.

        Parts with frequencies are of two kinds, filters and AdaGrad. For the heaviest part of a kind, `weight` is the
        weight of the kind, as a share of the weight of all parts that are linear or have Fourier features. For the
        other parts of the kind it is 0.
        """

    def begin_row(self, row: Array, task_id: int) -> None:
        """Fill the part's numbers in a new row of a task with its prior, or with what `end_row` has kept."""

    def end_row(self, row: Array, task_id: int) -> None:
        """Copy the part's numbers from a row that is evicted or not stored to its short rows, if the part has any."""

    def forget(self, task_id: int) -> None:
        """Clear the own weights of a task in short rows and hashed arrays.

        Other tasks that share some of these numbers of a hashed array lose them too.
        """

    def margins(self, e: Seen) -> Array:
        """Return f, (beliefs, outputs)."""

    def variances(self, e: Seen) -> Array:
        """Return the variance of f, one per belief."""

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        """Update all beliefs; `f` is the result of `margins`. Return whether a weight took a step."""

    def set_frequencies(self, count: int) -> None:
        """Use this many frequencies from now on; not fewer than before."""

    def bytes(self, frequencies: int) -> int:
        """Return the bytes of the compiled part with this many frequencies, without the rows of tasks."""

    def terms(self, e: Seen) -> Terms:
        """Return the terms that add up to f."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...

    @property
    def nbytes(self) -> int: ...


class WithoutRows:
    """The members of a part that stores no numbers in the rows of tasks."""

    row_width, at = 0, 0

    def begin_row(self, row: Array, task_id: int) -> None:
        pass

    def end_row(self, row: Array, task_id: int) -> None:
        pass


class WithoutFrequencies:
    """The members of a part that has no Fourier features."""

    frequencies, max_frequencies, frequency_limit, learns_slowly = 0, 0, 0, False

    def useful_frequencies(self, weight: float, seen: int) -> int:
        return 0

    def set_frequencies(self, count: int) -> None:
        pass
