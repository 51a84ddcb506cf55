"""What the parts of a Budgetron have in common: an example as they see it, and their interface.

A part holds one or more beliefs: models of the same task, each with its own margin. The rule mixes all beliefs of all
parts by how well they predict (`mixture`) and knows nothing else about a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Instance


@dataclass
class Seen:
    """One example: its features, computed once, and the rows of weights that its task takes part in."""

    x: Instance
    task_id: int
    linear: Array  # standardised columns divided by √d, and 1 for the bias; empty for sparse rows
    banks: list[Array]  # cos and sin of each frequency in turn, for each bank; none for sparse rows
    mine: Array  # the row of the task itself
    related: list[tuple[float, int, Array]] = field(default_factory=list)
    """(coefficient, task id, row) of every related task: f adds coefficient · (f of the own weights in that row)."""


SHARED, OWN, RELATED = range(3)
"""Where a term of f comes from: weights of all tasks, of the task itself, or of tasks that it is related to."""
SOURCES = ("shared", "own", "related")


class Terms(NamedTuple):
    """f of every belief as a sum of terms, by source."""

    columns: Array  # (3, beliefs, outputs, n): of each feature, the constant last
    fourier: Array  # (3, beliefs, outputs): of all Fourier features together

    @classmethod
    def zeros(cls, beliefs: int, outputs: int, n: int) -> Terms:
        return cls(np.zeros((len(SOURCES), beliefs, outputs, n)), np.zeros((len(SOURCES), beliefs, outputs)))


def source_of(e: Seen, row: Array) -> int:
    """Return OWN if a row of `e.related` is that of the task itself, otherwise RELATED.

    The rows are compared, because a cluster may have the same number as a task.
    """
    return OWN if row is e.mine else RELATED


class Part(Protocol):
    """One or more beliefs. Methods get the same `Seen` for the margins and for the update that follows."""

    count: int  # beliefs
    row_width: int  # numbers in the row of a task
    at: int  # where they begin
    frequencies: int  # random frequencies that it uses
    max_frequencies: int  # how many it may use, once the stream has shown that they help
    frequency_limit: int  # how many it may use if there are spare bytes

    def useful_frequencies(self, weight: float, seen: int) -> int:
        """Return how many frequencies it should use after `seen` examples, if there are bytes for them.

        `weight` is that of all parts of its kind for the heaviest of them, and 0 for the others.
        """

    def begin_row(self, row: Array, task_id: int) -> None:
        """Fill this part of a new row with its prior."""

    def margins(self, e: Seen) -> Array:
        """Return f, (beliefs, outputs)."""

    def variances(self, e: Seen) -> Array:
        """Return the variance of f, one per belief."""

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        """Update all beliefs; `f` is what `margins` returned. Returns whether anything changed."""

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
