"""The streams of `budgetron reproduce relations`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.data import synthetic
from budgetron.data.dataset import DataSet
from budgetron.errors import input_error, shown

Floats = NDArray[np.float64]
TRAIN = 200  # the number of examples of "opposed" that are learned, as in Saha et al.; the others are for testing


@dataclass(frozen=True)
class Drawn:
    """One draw of a stream: the examples, and the true similarity of the tasks.

    The similarity is None for *steady* and the streams that shift. Their errors over time are shown instead.
    """

    dataset: DataSet
    similarity: Floats | None = None


@dataclass(frozen=True)
class RelationStream:
    """A stream: its name, a description, and a function that draws it."""

    name: str
    description: str
    draw: Callable[[int], Drawn]


def _related(make: Callable[..., synthetic.RelatedTasks]) -> Callable[[int], Drawn]:
    def draw(seed: int) -> Drawn:
        stream = make(seed=seed)
        return Drawn(stream.dataset, stream.similarity)

    return draw


def _shifting(shift: synthetic.Shift | None) -> Callable[[int], Drawn]:
    def draw(seed: int) -> Drawn:
        stream = synthetic.stream(8000, d=10, n_tasks=3, relatedness=0.8, noise=0.05, shift=shift, seed=seed)
        return Drawn(stream.dataset)

    return draw


def _several(seed: int) -> Drawn:
    """Draw eight streams of the same three tasks with new weights, one after the other."""
    parts = [synthetic.stream(1000, d=10, n_tasks=3, relatedness=0.8, noise=0.05, seed=100 * seed + part).dataset
             for part in range(8)]  # fmt: skip
    X, y, tasks = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "tasks"))
    first: Any = parts[0]
    return Drawn(DataSet(name="several", X=X, y=y, tasks=tasks, description=first.description, licence=first.licence,
                         source="eight streams of budgetron.data.synthetic.stream", time_ordered=True))  # fmt: skip


STREAMS = {
    stream.name: stream
    for stream in (
        RelationStream("opposed", "three tasks in ℝ¹⁰, w_1 = −w_2 and w_3 unrelated: 200 examples, then 100 to test",
                       _related(synthetic.opposed)),
        RelationStream("kinds", "40 tasks of 4 kinds, 6,000 examples", _related(synthetic.kinds)),
        RelationStream("grid", "100 tasks on a grid, 8,000 examples", _related(synthetic.grid)),
        RelationStream("steady", "3 related tasks, 8,000 examples, no shift", _shifting(None)),
        RelationStream("turn", "as *steady*, but after half of the stream all labels are reversed",
                       _shifting(synthetic.Shift.abrupt(0.5, 180))),
        RelationStream("drift", "as *steady*, but the weights rotate by 180° over the stream",
                       _shifting(synthetic.Shift.gradual(0.0, 1.0, 180))),
        RelationStream("several", "eight unrelated concepts, one after the other", _several),
    )
}  # fmt: skip


def stream_named(name: str) -> RelationStream:
    """Return a stream by name."""
    if name not in STREAMS:
        raise input_error("reproduce relations", "--streams", f"some of {', '.join(STREAMS)}", shown(name))
    return STREAMS[name]
