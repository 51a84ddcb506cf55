"""Record error and memory over time. The number of points is bounded, because a stream may be endless.

If there are too many points, neighbours are merged in pairs, and each later point covers as many windows as a merged
one. So all points have equally many windows, except that the last point may still have fewer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate.metrics.counts import Figures, figures
from budgetron.evaluate.metrics.ranking import Ranks
from budgetron.evaluate.metrics.window_ranks import added, ranks

if TYPE_CHECKING:
    from budgetron.learners.estimators.budgetron import Belief

MAX_POINTS = 512  # even, so that the points can be merged in pairs
MAX_SHARES = 32  # a point lists the budget shares of this many tasks, largest first


@dataclass(frozen=True)
class Point:
    """The figures of one window, the figures of the stream up to its end, and the state of the model at its end."""

    position: int  # examples scored so far
    window: Figures
    so_far: Figures
    stored: int | None
    memory_bytes: int | None
    budget_share: Mapping[Hashable, float]  # share of the stored examples per task
    beliefs: Sequence[tuple[Belief, float]] = ()  # the beliefs of a Budgetron with their weights

    def to_dict(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "window": self.window.to_dict(),
            "so_far": self.so_far.to_dict(),
            "stored": self.stored,
            "memory_bytes": self.memory_bytes,
            "budget_share": {str(task): share for task, share in self.budget_share.items()},
            "beliefs": [vars(belief) | {"weight": weight} for belief, weight in self.beliefs],
        }


@dataclass(frozen=True)
class _End:
    """The record of one window, or of several merged ones, made at its end."""

    position: int
    counts: NDArray[np.float64]
    stored: int | None
    memory_bytes: int | None
    budget_share: dict[Hashable, float]
    beliefs: list[tuple[Belief, float]]
    ranked: NDArray[np.float64] | None  # sums of `window_ranks`
    so_far: Ranks


class Curve:
    """Collects the points of a curve as windows end."""

    def __init__(self) -> None:
        self._ends: list[_End] = []
        self._windows, self._step = 0, 1  # windows so far; a point has `_step` of them

    def close_window(
        self,
        position: int,
        counts: NDArray[np.float64],
        model: Any,
        ranked: NDArray[np.float64] | None = None,
        so_far: Ranks = Ranks(),
    ) -> None:
        """Add a window, given its counts and ranking sums and the ranking figures up to its end."""
        # getattr with defaults, because learners of other packages may lack these attributes.
        share = list(getattr(model, "budget_share_", {}).items())[:MAX_SHARES]
        stored, size = getattr(model, "n_stored_", None), getattr(model, "memory_bytes_", None)
        beliefs = getattr(model, "beliefs_", [])
        end = _End(position, counts, stored, size, dict(share), beliefs, ranked, so_far)
        if self._windows % self._step:  # the last point is not complete yet
            self._ends[-1] = _merged(self._ends[-1], end)
        else:
            if len(self._ends) == MAX_POINTS:
                self._ends = [_merged(*pair) for pair in zip(self._ends[::2], self._ends[1::2], strict=True)]
                self._step *= 2
            self._ends.append(end)
        self._windows += 1

    def copy(self) -> Curve:
        """Return an independent copy."""
        other = Curve()
        other._ends, other._windows, other._step = list(self._ends), self._windows, self._step
        return other

    def points(self, probabilistic: bool) -> list[Point]:
        """Return the points of the curve, each with the figures of its window and of all examples so far."""
        points, total = [], 0.0
        for end in self._ends:
            # Counts of all windows up to this one give the figures so far.
            total = total + end.counts  # type: ignore[assignment]
            points.append(
                Point(
                    end.position,
                    figures(end.counts, probabilistic, ranks(end.ranked)),
                    figures(np.asarray(total), probabilistic, end.so_far),
                    end.stored,
                    end.memory_bytes,
                    end.budget_share,
                    end.beliefs,
                )
            )
        return points


def _merged(first: _End, second: _End) -> _End:
    """Merge two neighbours: add their counts, and take the state of the model from the later one."""
    return replace(second, counts=first.counts + second.counts, ranked=added(first.ranked, second.ranked))
