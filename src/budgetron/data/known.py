"""The answer behind a made stream: the weights of every task at every moment.

    f_i(x, t) = ⟨w_i(t), φ(x)⟩,   w_i(t) = cos θ_t · w_i + sin θ_t · v_i
    y = [f > 0], flipped with probability `noise`

w_i are unit vectors with chosen cosines between tasks; v_i is where task i is heading. Where there are enough
features the vectors are made from one orthonormal family, so that cosines are exact, not only expected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import refuse, shown

if TYPE_CHECKING:
    from budgetron.graphs import TaskGraph

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    """When and how the tasks turn: by `angle` degrees, between two positions given as shares of the stream.

    Each task moves equally far either way. `alike` is one rotation for all tasks, so they stay as related as
    they were; otherwise each heads its own way, and their cosines shrink by cos²θ.
    """

    begin: float = 0.5
    end: float = 0.5
    angle: float = 90.0
    alike: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= 1:
            raise refuse(
                "Shift", "begin and end", "0 <= begin <= end <= 1", f"{self.begin!r} and {self.end!r}"
            )
        if not 0 < self.angle <= 180:
            raise refuse("Shift", "angle", "a number of degrees in (0, 180]", shown(self.angle))

    @classmethod
    def abrupt(cls, at: float = 0.5, angle: float = 90.0, alike: bool = True) -> Shift:
        """All at once: the first shifted example is number round(at · n), counted from 0."""
        return cls(at, at, angle, alike)

    @classmethod
    def gradual(cls, begin: float = 0.0, end: float = 1.0, angle: float = 90.0, alike: bool = True) -> Shift:
        """Evenly, from example round(begin · n) to example round(end · n)."""
        return cls(begin, end, angle, alike)

    def angles(self, n: int) -> Floats:
        """θ_t in radians for t = 0 … n−1."""
        begin, end = round(self.begin * n), round(self.end * n)
        t = np.arange(n)
        share = t >= begin if begin == end else np.clip((t - begin) / (end - begin), 0.0, 1.0)
        return np.asarray(np.deg2rad(self.angle) * share, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class KnownAnswer:
    """What no learner can beat on a made stream, in the order of the stream.

    `scores` are f before noise; `labels` are the Bayes predictions, which err with probability `noise`;
    `features` is φ.
    """

    start: Floats  # w, (k, D)
    heading: Floats  # v, (k, D)
    angles: Floats  # θ, (n,)
    scores: Floats  # (n,)
    noise: float
    features: Callable[[Any], Any]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels before noise."""
        return (self.scores > 0).astype(np.int64)

    @property
    def probabilities(self) -> Floats:
        """P(y = 1) of each example."""
        return np.where(self.scores > 0, 1.0 - self.noise, self.noise)

    def weights(self, t: int) -> Floats:
        """The weights of all tasks, (k, D), at position t of the stream."""
        weights: Floats = np.cos(self.angles[t]) * self.start + np.sin(self.angles[t]) * self.heading
        return weights

    def relatedness(self, t: int) -> Floats:
        """The cosines between the tasks' weights, (k, k), at position t."""
        directions = _unit(self.weights(t))
        return directions @ directions.T


def draw_weights(
    relation: float | Floats,
    k: int,
    dimension: int,
    alike: bool,
    mean: Floats | None,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """w and v: rows of length 1 related as `relation` says, orthogonal to the mean of φ.

    The last makes the two classes equally frequent, whatever the weights.
    """
    family = k if isinstance(relation, np.ndarray) else k + 1
    vectors = _orthonormal(2 * family, dimension, mean, rng)
    start = _combined(relation, vectors[:family])
    heading = _combined(relation if alike else 0.0 if family > k else np.eye(k), vectors[family:])
    return start, heading


def similarities_on(graph: TaskGraph, tasks: list[Any]) -> Floats:
    """A⁻¹ among the tasks."""
    keys, clusters = graph.locate(tasks)
    located = zip(keys.tolist(), clusters.tolist(), strict=True)
    similarity = np.array([graph.row(key, cluster, keys, clusters) for key, cluster in located])
    if not (np.diag(similarity) > 0).all():
        lone = tasks[int(np.argmin(np.diag(similarity)))]
        accepted = "a graph in which each task is similar to itself"
        raise refuse("synthetic.stream", "graph", accepted, f"(A⁻¹)_ii = 0 for task {shown(lone)}")
    return similarity


def _orthonormal(count: int, dimension: int, avoided: Floats | None, rng: np.random.Generator) -> Floats:
    """Rows of length 1, orthogonal to `avoided`, and to each other as far as the dimension allows."""
    rows = rng.standard_normal((count, dimension))
    if avoided is not None:
        unit = avoided / np.linalg.norm(avoided)
        rows -= np.outer(rows @ unit, unit)
    free = dimension - (avoided is not None)
    if count <= free:
        return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
    return _unit(rows)


def _combined(relation: float | Floats, vectors: Floats) -> Floats:
    """Unit vectors out of orthonormal ones: all cosines as given, or proportional to a similarity matrix."""
    if isinstance(relation, np.ndarray):
        values, basis = np.linalg.eigh(relation)
        mixed = (basis * np.sqrt(np.clip(values, 0.0, None))) @ basis.T @ vectors
    else:
        mixed = np.sqrt(relation) * vectors[0] + np.sqrt(1.0 - relation) * vectors[1:]
    return _unit(mixed)


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
