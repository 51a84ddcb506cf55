"""`KnownAnswer`: the true weights of a synthetic stream, for every task at every position. Created by `synthetic`.

    f_i(x, t) = ⟨w_i(t), φ(x)⟩,   w_i(t) = cos θ_t · w_i + sin θ_t · v_i
    y = [f > 0], flipped with probability `noise`

φ(x) are the D features in which the answer is linear. Task i of k tasks has the weights w_i(t) at position t of the
stream. w_i are unit vectors with chosen cosines between tasks. Task i drifts from w_i towards v_i as the angle θ_t
grows. If there are enough features, all w_i and v_i are made from one orthonormal family, so that the cosines are
exact. Otherwise they are right on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import input_error, shown
from budgetron.graphs import TaskGraph, similarity_matrix

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    """A concept drift: when the weights rotate, by how many degrees, and whether all tasks rotate together.

    `begin` and `end` are positions as shares of the stream. With `alike`, all tasks rotate in the same way and stay as
    related as before. Otherwise each task rotates in its own direction, and the cosines between tasks are multiplied by
    cos²θ.
    """

    begin: float = 0.5
    end: float = 0.5
    angle: float = 90.0
    alike: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= 1:
            raise input_error("Shift", "begin and end", "0 <= begin <= end <= 1", f"{self.begin!r} and {self.end!r}")
        if not 0 < self.angle <= 180:
            raise input_error("Shift", "angle", "a number of degrees in (0, 180]", shown(self.angle))

    @classmethod
    def abrupt(cls, at: float = 0.5, angle: float = 90.0, alike: bool = True) -> Shift:
        """Return a sudden shift. The first shifted example has the number round(at · n), counted from 0."""
        return cls(at, at, angle, alike)

    @classmethod
    def gradual(cls, begin: float = 0.0, end: float = 1.0, angle: float = 90.0, alike: bool = True) -> Shift:
        """Return a gradual shift from example round(begin · n) to example round(end · n)."""
        return cls(begin, end, angle, alike)

    def angles(self, n: int) -> Floats:
        """Return the angles θ_t in radians, for t = 0 … n−1."""
        begin, end = round(self.begin * n), round(self.end * n)
        t = np.arange(n)
        share = t >= begin if begin == end else np.clip((t - begin) / (end - begin), 0.0, 1.0)
        return np.asarray(np.deg2rad(self.angle) * share, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class KnownAnswer:
    """The best possible predictions on a synthetic stream, in the order of the stream.

    `scores` are the values of f. `labels` are 1 where f > 0 and otherwise 0, before noise: the best predictions,
    which are wrong with probability `noise`. `features` computes φ(x).
    """

    start: Floats  # w, of shape (k, D)
    target: Floats  # v, of shape (k, D)
    angles: Floats  # θ, of shape (n,)
    scores: Floats  # f, of shape (n,)
    noise: float
    features: Callable[[Any], Any]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels before noise."""
        return (self.scores > 0).astype(np.int64)

    @property
    def probabilities(self) -> Floats:
        """The probability P(y = 1) of each example."""
        return np.where(self.scores > 0, 1.0 - self.noise, self.noise)

    def weights(self, t: int) -> Floats:
        """Return the weights of all tasks, (k, D), at position t of the stream."""
        weights: Floats = np.cos(self.angles[t]) * self.start + np.sin(self.angles[t]) * self.target
        return weights

    def relatedness(self, t: int) -> Floats:
        """Return the cosines between the tasks' weights, (k, k), at position t."""
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
    """Return w and v: unit vectors orthogonal to the mean of φ. w has the cosines in `relation`.

    v has the same cosines with `alike`, otherwise cosines of 0. Because all vectors are orthogonal to the mean, the two
    classes are about equally frequent for all weights.
    """
    # One cosine for all pairs of tasks needs a common direction besides one direction per task.
    family = k if isinstance(relation, np.ndarray) else k + 1
    # The first half of the vectors is for w, the second half for v. So v is orthogonal to w, and a rotation by 90°
    # replaces the weights by unrelated ones.
    vectors = _orthonormal(2 * family, dimension, mean, rng)
    start = _combine(relation, vectors[:family])
    # If tasks do not drift alike, the targets of different tasks are orthogonal. In the form of `relation`, this is the
    # cosine 0 or the identity matrix.
    target = _combine(relation if alike else 0.0 if family > k else np.eye(k), vectors[family:])
    return start, target


def similarities_on(graph: TaskGraph, tasks: list[Any]) -> Floats:
    """Return the similarities A⁻¹ of these tasks; reject a task with similarity 0 to itself."""
    similarity = similarity_matrix(graph, tasks)
    if not (np.diag(similarity) > 0).all():
        task = tasks[int(np.argmin(np.diag(similarity)))]
        accepted = "a graph with (A⁻¹)_ii > 0 for every task i"
        raise input_error("synthetic.stream", "graph", accepted, f"0 for task {shown(task)}")
    return similarity


def _orthonormal(count: int, dimension: int, normal: Floats | None, rng: np.random.Generator) -> Floats:
    """Return unit vectors orthogonal to `normal`, and to each other if the dimension is large enough."""
    rows = rng.standard_normal((count, dimension))
    if normal is not None:
        unit = normal / np.linalg.norm(normal)
        # Gram-Schmidt against the mean of the features.
        rows -= np.outer(rows @ unit, unit)
    free = dimension - (normal is not None)
    # There cannot be more orthonormal vectors than dimensions. If there are too few dimensions, random directions are
    # orthogonal on average.
    if count <= free:
        return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
    return _unit(rows)


def _combine(relation: float | Floats, vectors: Floats) -> Floats:
    """Combine orthonormal vectors into unit vectors with these cosines: one number, or a similarity matrix."""
    if isinstance(relation, np.ndarray):
        # The symmetric square root of the similarity matrix; rounding may make eigenvalues slightly negative.
        values, basis = np.linalg.eigh(relation)
        mixed = (basis * np.sqrt(np.clip(values, 0.0, None))) @ basis.T @ vectors
    else:
        # A direction that all tasks share plus an own direction per task gives the cosine `relation` between any two.
        mixed = np.sqrt(relation) * vectors[0] + np.sqrt(1.0 - relation) * vectors[1:]
    return _unit(mixed)


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
