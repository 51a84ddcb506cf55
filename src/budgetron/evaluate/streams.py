"""Convert a stream to blocks. Accepted streams are:

(X, y, tasks) or (X, y)      arrays, frames or sparse matrices; also a data.DataSet
iterable of such tuples      blocks, or single examples (x, y, task) with x a row or a dict
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from budgetron.errors import InputError, input_type_error, shown
from budgetron.learners.input.frames import check_in_memory
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows

_ACCEPTED = "(X, y, tasks), a data set, or an iterable of blocks (X, y, tasks) or examples (x, y, task)"


class Block(NamedTuple):
    """Some examples in order. `tasks` is None for a single task; `weights` is None if all weights are 1.

    `offsets` are another model's scores, or None.
    """

    X: Any
    y: Any
    tasks: Any
    weights: Any = None
    offsets: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, start: int, end: int) -> Block:
        """Return the rows from `start` up to `end`."""
        part = slice(start, end)
        rest = (None if values is None else values[part] for values in (self.tasks, self.weights, self.offsets))
        X = _csr_rows(self.X, start, end) if sparse.issparse(self.X) else self.X[part]
        return Block(X, self.y[part], *rest)


def _csr_rows(X: Any, start: int, end: int) -> Any:
    """Return rows of a CSR matrix that share its arrays. Slicing by SciPy would copy them and check them again."""
    first, last = X.indptr[start], X.indptr[end]
    rows = type(X)((end - start, X.shape[1]), dtype=X.dtype)
    rows.data, rows.indices, rows.indptr = X.data[first:last], X.indices[first:last], X.indptr[start : end + 1] - first
    # SciPy reads all column numbers to find out whether a matrix is in canonical format. X stores the answer, so the
    # rows need not be read again.
    rows.has_canonical_format = X.has_canonical_format
    return rows


def as_one_block(stream: Any) -> Block | None:
    """Return the stream as one block if it is a tuple of arrays or a data set, otherwise None."""
    if all(hasattr(stream, name) for name in ("X", "y", "tasks")):
        return block_of(stream.X, stream.y, stream.tasks)
    if isinstance(stream, tuple) and len(stream) in (2, 3):
        return block_of(*stream)
    return None


def blocks(who: str, stream: Any, window: int, n_features: int | None = None) -> Iterator[Block]:
    """Yield the blocks of the stream; single examples are collected into blocks of up to `window`."""
    at_once = as_one_block(stream)
    if at_once is not None:
        yield at_once
        return
    if isinstance(stream, str | bytes | Mapping) or not isinstance(stream, Iterable):
        raise input_type_error(who, "stream", _ACCEPTED, shown(stream))
    yield from _collect(who, stream, window, n_features)


def _collect(who: str, stream: Iterable[Any], window: int, n_features: int | None) -> Iterator[Block]:
    """Yield blocks of a stream of blocks or of single examples, which are collected up to `window`."""
    waiting: list[tuple[Any, Any, Any]] = []
    for item in stream:
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise input_type_error(who, "an item of the stream", "(X, y, tasks) or (x, y, task)", shown(item))
        x, y, task = item if len(item) == 3 else (*item, None)
        # A two-dimensional x is a block, unless it is a single row, such as a sparse one, with a scalar label.
        if getattr(x, "ndim", 1) == 2 and (np.ndim(y) > 0 or x.shape[0] != 1):
            if waiting:
                yield _block_of_examples(who, waiting, n_features)
                waiting = []
            yield block_of(x, y, task)
            continue
        waiting.append((x, y, task))
        if len(waiting) == window:
            yield _block_of_examples(who, waiting, n_features)
            waiting = []
    if waiting:
        yield _block_of_examples(who, waiting, n_features)


def _block_of_examples(who: str, examples: list[tuple[Any, Any, Any]], n_features: int | None) -> Block:
    """Join single examples into a block: dicts are hashed, sparse rows are stacked."""
    rows, y, tasks = zip(*examples, strict=True)
    if any(task is None for task in tasks) and any(task is not None for task in tasks):
        raise InputError(f"{who}: some examples of the stream have a task and some have not. Give all a task or none.")
    if all(isinstance(row, Mapping) for row in rows):
        X: Any = hashed_rows(who, rows, n_features or DICT_FEATURES)
    elif any(isinstance(row, Mapping) for row in rows):
        raise InputError(f"{who}: some examples of the stream are dicts and some are rows. Use one form for all.")
    elif any(sparse.issparse(row) for row in rows):
        X = sparse.vstack(rows, format="csr")
    else:
        X = np.vstack([np.asarray(row) for row in rows])
    return Block(X, np.array(y), None if tasks[0] is None else list(tasks))


def block_of(X: Any, y: Any, tasks: Any = None, weights: Any = None, offsets: Any = None) -> Block:
    """Make a block of rows, labels, tasks, weights and another model's scores."""
    for name, values in (("X", X), ("y", y), ("tasks", tasks)):
        check_in_memory("evaluate", name, values)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if sparse.issparse(X):
        X = X.tocsr()
    if hasattr(tasks, "to_numpy"):
        tasks = tasks.to_numpy()
    if tasks is not None and not isinstance(tasks, np.ndarray):
        tasks = list(tasks)
    rest = (None if values is None else np.asarray(values) for values in (weights, offsets))
    return Block(X, np.asarray(y), tasks, *rest)
