"""`Explanation`: the reasons for one prediction, its margin as a sum of terms.

`Learner.explain` makes it from the engine's answer to the query "explain". The terms and the remainder add up to the
margin. Terms are created when they are read, because most callers want only the largest few: creating 2,000 objects for
2,000 features takes far longer than the prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_FIRST = 32  # reading up to this many of the largest terms does not create the others


class Term(NamedTuple):
    """One summand of a margin, split by where its weights come from.

    Attributes
    ----------
    name : str
        The name of the feature, or of another part of the margin (see `kind`).
    shared, own, related : float
        The parts of the term that come from the weights shared by all tasks, from the task's own weights, and from the
        weights of related tasks.
    kind : {"feature", "random features", "stored examples", "offset", "constant", "normalisation"}
        "normalisation" is the mean of the margins of all classes, if there are more than two.
    """

    name: str
    shared: float
    own: float = 0.0
    related: float = 0.0
    kind: str = "feature"

    @property
    def total(self) -> float:
        """The whole term: shared + own + related."""
        return self.shared + self.own + self.related


def split_term(name: str, parts: Sequence[float], kind: str) -> Term:
    """Return a term, given its three parts: shared, own and related."""
    shared, own, related = parts
    return Term(name, shared, own, related, kind)


class NearestExample(NamedTuple):
    """A stored example: its position in the stream, its task, its kernel value, and its term of the margin."""

    arrival: int
    task: Hashable
    similarity: float
    contribution: float


class Terms(Sequence[Term]):
    """All terms of an explanation, the largest in absolute value first.

    Features whose shared, own and related parts are all 0 are left out.

    Reading the first terms does not create the others.
    """

    def __init__(self, columns: Floats, names: Callable[[list[int]], Sequence[str]], others: Sequence[Term]) -> None:
        self._columns, self._names = columns[:, :-1], names
        totals, constant = columns.sum(axis=0), columns[:, -1]
        self.total, self._sizes = float(totals.sum()) + sum(term.total for term in others), np.abs(totals[:-1])
        self._others = [split_term("constant", constant.tolist(), "constant")] if constant.any() else []
        self._others += others

    def largest(self, n: int | None) -> tuple[Term, ...]:
        """Return the n terms that are largest in absolute value; all terms if n is None."""
        columns, sizes = self._columns, self._sizes
        if n is not None and n < len(sizes):
            chosen = np.argpartition(sizes, len(sizes) - n)[len(sizes) - n :]
            chosen.sort()  # terms of equal size stay in the order of the features
            chosen = chosen[columns[:, chosen].any(axis=0)]
        else:
            chosen = np.flatnonzero(columns.any(axis=0))
        features = list(map(Term, self._names(chosen.tolist()), *columns[:, chosen].tolist()))
        candidates = features + self._others
        absolute = np.concatenate([sizes[chosen], [abs(term.total) for term in self._others]])
        return tuple([candidates[i] for i in np.argsort(-absolute, kind="stable")[:n].tolist()])

    @cached_property
    def _first(self) -> tuple[Term, ...]:
        return self.largest(_FIRST)

    @cached_property
    def _all(self) -> tuple[Term, ...]:
        return self.largest(None)

    @cached_property
    def _n(self) -> int:
        return int(np.count_nonzero(self._columns.any(axis=0))) + len(self._others)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Term: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Term, ...]: ...

    def __getitem__(self, index: int | slice) -> Term | tuple[Term, ...]:
        # A slice within the first terms does not need all of them.
        piece = index if isinstance(index, slice) else slice(index, index + 1)
        start, stop, is_forward = piece.start or 0, piece.stop, piece.step in (None, 1)
        is_within_first = is_forward and stop is not None and start >= 0 and 0 <= stop <= _FIRST
        return (self._first if is_within_first else self._all)[index]

    def __iter__(self) -> Iterator[Term]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == (other._all if isinstance(other, Terms) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} terms>"


class Explanation:
    """The reasons for the prediction of one example. Made by `Learner.explain`.

    Attributes
    ----------
    label
        The class that is explained. Terms above 0 are evidence for it, terms below 0 against it.
    margin : float
        The decision value of `label`; the sum of all terms and the remainder.
    terms : sequence of Term
        All terms, the largest in absolute value first. They are created when they are read: to read a few of many, use
        ``terms[:5]``.
    remainder : float
        The margin minus the sum of the terms. A Budgetron mixes the probabilities of several models, so its margin is
        not exactly a sum. The remainder is small if the models agree.
    nearest : tuple of NearestExample
        The most similar stored examples, for learners that store examples.
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
        self.terms = Terms(columns, names, others)  # columns: (3, n), the constant last
        self.remainder = margin - self.terms.total

    def top(self, n: int = 10) -> tuple[Term, ...]:
        """Return the n terms that are largest in absolute value."""
        return self.terms.largest(n)

    @property
    def total(self) -> float:
        """The sum of all terms and the remainder: the margin."""
        return sum(term.total for term in self.terms) + self.remainder

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return a dict for JSON, with the `limit` largest terms; its `rest` is the sum of all other terms."""
        shown = self.top(len(self.terms) if limit is None else limit)
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
        rest = self.margin - self.remainder - sum(term.total for term in self.terms[:10])
        if len(self.terms) > 10:
            lines.append(f"{f'{len(self.terms) - 10} others':<28}{rest:>+9.3f}")
        return "\n".join([*lines, f"{'remainder':<28}{self.remainder:>+9.3f}"])

    def __repr__(self) -> str:
        return f"<Explanation of {self.margin:+.3f} for {self.label!r}: {len(self.terms)} terms>"
