"""Comparators: reference classifiers g = [g_1 … g_k], one per task, against which the theorems measure a learner.

    g_i = Σ_j W_ij K'(z_j, ·)                       W a weight table over the examples z
    ‖g‖² = tr(K_{g,g} A),  (K_{g,g})_ij = ⟨g_i, g_j⟩ = (W H Wᵀ)_ij,  H the Gram matrix of z
    S = Σ_t ‖g_t − g_{t−1}‖                         total shift, if g changes during the stream

A⁻¹ has the similarities of the tasks and K' is the kernel of rows. A is the inverse of the part of A⁻¹ that belongs to
the comparator's own tasks. Other tasks do not add to the norm, because their classifiers may be chosen to minimize it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from budgetron.errors import InputError, input_error, shown
from budgetron.graphs import TaskGraph, complete, similarity_matrix
from budgetron.graphs.task_ids import plain
from budgetron.kernels import Kernel, Linear

Floats = NDArray[np.float64]
_BLOCK = 2048  # rows of X per kernel matrix, to bound memory
_OUTSIDE = 1e-9  # if a larger share of the weights is outside the range of a singular A⁻¹, the norm is infinite


@dataclass(frozen=True, eq=False)
class Comparator:
    """One classifier per task, given by a table of weights over examples."""

    tasks: tuple[Hashable, ...]
    rows: Any  # z: (m, d) array or CSR
    weights: Floats  # W: (k, m)
    kernel: Kernel
    graph: TaskGraph

    def __post_init__(self) -> None:
        expected = (len(self.tasks), self.rows.shape[0])
        if np.shape(self.weights) != expected:
            got = f"shape {np.shape(self.weights)}"
            raise input_error("Comparator", "weights", f"of shape {expected}, one row per task", got)

    def margins(self, X: Any, tasks: Iterable[Any]) -> Floats:
        """Return g_i(x) for each row x and its task i."""
        task_indices = self._task_indices(tasks)
        values = np.empty(len(task_indices))
        for start in range(0, len(task_indices), _BLOCK):
            part = slice(start, start + _BLOCK)
            kernel_values = kernel_matrix(self.kernel, X[part], self.rows)
            values[part] = np.einsum("ij,ij->i", kernel_values, self.weights[task_indices[part]])
        return values

    @cached_property
    def largest_norm(self) -> float:
        """The norm √tr(K_{g,g} A); infinite if the graph does not allow these differences between tasks."""
        gram = kernel_matrix(self.kernel, self.rows, self.rows)
        similarity = similarity_matrix(self.graph, self.tasks)
        # Pooled tasks make A⁻¹ singular; the pseudo-inverse gives the norm on its range.
        inverse = np.linalg.pinv(similarity, rcond=1e-12, hermitian=True)
        outside = self.weights - similarity @ (inverse @ self.weights)
        # Compare with the size of the weights, and not with ‖g‖, which may be small because terms cancel.
        if _squared(outside, gram) > _OUTSIDE * float((self.weights**2 @ gram.diagonal()).sum()):
            return float("inf")
        between = self.weights @ gram @ self.weights.T
        return float(np.sqrt(max(np.sum(between * inverse), 0.0)))

    @property
    def total_shift(self) -> float:
        return 0.0

    def scaled(self, factor: float) -> Comparator:
        """Return the same classifiers multiplied by a factor.

        A larger factor lowers the hinge loss of correct predictions, but raises the norm.
        """
        return replace(self, weights=factor * self.weights)

    def minus(self, other: Comparator) -> Comparator:
        """Return the difference of two comparators, over the examples of both."""
        if self.tasks != other.tasks or self.kernel != other.kernel or self.graph != other.graph:
            raise InputError("Comparator: only comparators with the same tasks, kernel and graph can be subtracted.")
        stack = sparse.vstack if sparse.issparse(self.rows) else np.vstack
        rows = stack([self.rows, other.rows])
        return replace(self, rows=rows, weights=np.hstack([self.weights, -other.weights]))

    def _task_indices(self, tasks: Iterable[Any]) -> NDArray[np.intp]:
        index = {task: i for i, task in enumerate(self.tasks)}
        try:
            return np.array([index[plain(task)] for task in tasks], dtype=np.intp)
        except KeyError as missing:
            raise input_error("Comparator", "tasks", "tasks of the comparator", shown(missing.args[0])) from None


@dataclass(frozen=True, eq=False)
class Shifting:
    """A comparator that changes during the stream: parts[b] is used from position starts[b] on."""

    starts: Sequence[int]
    parts: Sequence[Comparator]

    def __post_init__(self) -> None:
        if len(self.starts) != len(self.parts) or not self.parts or self.starts[0] != 0:
            raise input_error("Shifting", "starts", "one position per part, beginning with 0", shown(list(self.starts)))
        if any(later <= earlier for earlier, later in zip(self.starts, self.starts[1:], strict=False)):
            raise input_error("Shifting", "starts", "increasing", shown(list(self.starts)))

    def margins(self, X: Any, tasks: Iterable[Any]) -> Floats:
        """Return g_t(x_t) of each row, by its position."""
        names = list(tasks)
        ends = [*self.starts[1:], len(names)]
        values = [
            part.margins(X[start:end], names[start:end])
            for part, start, end in zip(self.parts, self.starts, ends, strict=True)
            if start < min(end, len(names))
        ]
        return np.concatenate(values)

    @property
    def graph(self) -> TaskGraph:
        return self.parts[0].graph

    @cached_property
    def largest_norm(self) -> float:
        return max(part.largest_norm for part in self.parts)

    @cached_property
    def total_shift(self) -> float:
        """The total shift S, in the norm of the graph."""
        pairs = zip(self.parts, self.parts[1:], strict=False)
        return float(sum(later.minus(earlier).largest_norm for earlier, later in pairs))

    def scaled(self, factor: float) -> Shifting:
        return replace(self, parts=[part.scaled(factor) for part in self.parts])


def model_comparator(model: Any, tasks: Iterable[Any]) -> Comparator:
    """Make a comparator from the classifiers that a fitted model of two classes has for these tasks."""
    names = tuple(dict.fromkeys(plain(task) for task in tasks))
    weights = np.array([model.task_weights(task) for task in names])
    graph = complete() if model.graph is None else model.graph
    return Comparator(names, model.active_set_.rows, weights, model.kernel_, graph)


def linear_comparator(tasks: Iterable[Any], weights: ArrayLike, graph: TaskGraph) -> Comparator:
    """Make a comparator ⟨w_i, x⟩ per task under the linear kernel; its examples are the unit vectors."""
    table = np.asarray(weights, dtype=np.float64)
    return Comparator(tuple(plain(task) for task in tasks), np.eye(table.shape[1]), table, Linear(), graph)


def kernel_matrix(kernel: Kernel, a: Any, b: Any) -> Floats:
    """Return K' between the rows of two arrays or sparse matrices."""
    dot = a @ b.T
    dot = dot.toarray() if sparse.issparse(dot) else np.asarray(dot)
    sq_a, sq_b = np.broadcast_arrays(squared_norms(a)[:, None], squared_norms(b)[None, :])
    return kernel.row(dot, sq_a, sq_b)


def squared_norms(rows: Any) -> Floats:
    """Return ‖x‖² of each row."""
    squares = rows.multiply(rows) if sparse.issparse(rows) else rows * rows
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def _squared(weights: Floats, gram: Floats) -> float:
    return float(np.einsum("ij,jl,il->", weights, gram, weights, optimize=True))
