"""Reasons for one prediction: the margin as a sum of terms.

`Learner.explain` makes an `Explanation` from the engine's answer to the query "explain". The terms and the remainder
add up to the margin. Lists of terms are made when they are first read, since most callers want the largest few.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Term(NamedTuple):
    """One summand of a margin, split by where its weights come from.

    Attributes
    ----------
    name : str
        The feature; or what else the margin is made of, see `kind`.
    shared, own, related : float
        What the weights of all tasks add, those of the task itself, and those of tasks that it is related to.
    kind : {"feature", "random features", "stored examples", "offset", "constant", "normalisation"}
        The last one is the mean of the margins of all classes, where there are more than two.
    """

    name: str
    shared: float
    own: float = 0.0
    related: float = 0.0
    kind: str = "feature"

    @property
    def total(self) -> float:
        """What the term adds to the margin."""
        return self.shared + self.own + self.related


def split_term(name: str, parts: Sequence[float], kind: str) -> Term:
    """Return a term from its shared, own and related part."""
    shared, own, related = parts
    return Term(name, shared, own, related, kind)


class NearestExample(NamedTuple):
    """A stored example: its position in the stream, its task, its kernel value, and what it adds to the margin."""

    arrival: int
    task: Hashable
    similarity: float
    contribution: float


class Explanation:
    """Why a model predicts what it does for one example. Made by `Learner.explain`.

    Attributes
    ----------
    label : the class that terms above 0 speak for: the second of two classes, or the class that was asked for
    margin : float
        The decision value of `label`; the sum of all terms and the remainder.
    terms : tuple of Term
        All terms, the largest first.
    remainder : float
        What the terms do not add up to: a Budgetron mixes the probabilities of several models, which is not a sum. It
        is small where the models agree.
    nearest : tuple of NearestExample
        The most similar stored examples, of learners that store examples.
    """

    def __init__(
        self,
        label: Any,
        margin: float,
        columns: Floats,
        names: Callable[[list[int]], Sequence[str]],
        others: Sequence[Term] = (),
        nearest: tuple[NearestExample, ...] = (),
    ) -> None:
        self.label, self.margin, self.nearest = label, margin, nearest
        self._columns, self._names, self._others = columns, names, tuple(others)  # columns: (3, n), the constant last
        self.remainder = margin - float(columns.sum()) - sum(term.total for term in others)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All terms, the largest first; features that add nothing are left out."""
        return self._largest(None)

    def top(self, n: int = 10) -> tuple[Term, ...]:
        """Return the n largest terms. With many features this is faster than `terms`."""
        return self._largest(n)

    def _largest(self, n: int | None) -> tuple[Term, ...]:
        columns = self._columns[:, :-1]
        sizes = np.abs(columns.sum(axis=0))
        if n is not None and n < len(sizes):
            places = np.argpartition(-sizes, n)[:n]
            places = places[columns[:, places].any(axis=0)]
        else:
            places = np.flatnonzero(columns.any(axis=0))
        found = list(map(Term, self._names(places.tolist()), *columns[:, places].tolist()))
        if self._columns[:, -1].any():
            found.append(split_term("constant", self._columns[:, -1].tolist(), "constant"))
        found += self._others
        found.sort(key=lambda term: -abs(term.total))
        return tuple(found[:n])

    @property
    def total(self) -> float:
        """The sum of all terms and the remainder: the margin."""
        return sum(term.total for term in self.terms) + self.remainder

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return plain values, for JSON: the `most` largest terms, and the sum of the others as `rest`."""
        shown = self.terms if most is None else self.top(most)
        return {
            "label": self.label,
            "margin": self.margin,
            "terms": [term._asdict() | {"total": term.total} for term in shown],
            "rest": self.margin - self.remainder - sum(term.total for term in shown),
            "remainder": self.remainder,
            "nearest": [example._asdict() for example in self.nearest],
        }

    def __str__(self) -> str:
        heads = "".join(f"{head:>9}" for head in ("total", "shared", "own", "related"))
        lines = [f"margin {self.margin:+.3f} for {self.label}", f"{'':<28}{heads}"]
        for term in self.terms[:10]:
            figures = "".join(f"{value:>+9.3f}" for value in (term.total, term.shared, term.own, term.related))
            lines.append(f"{term.name[:27]:<28}{figures}")
        rest = sum(term.total for term in self.terms[10:])
        if len(self.terms) > 10:
            lines.append(f"{f'{len(self.terms) - 10} others':<28}{rest:>+9.3f}")
        return "\n".join([*lines, f"{'remainder':<28}{self.remainder:>+9.3f}"])

    def __repr__(self) -> str:
        return f"<Explanation of {self.margin:+.3f} for {self.label!r}: {len(self.terms)} terms>"
