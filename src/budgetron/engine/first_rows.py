"""The first rows of a stream, which a model keeps until its memory is planned from them.

A `Budgetron` on sparse rows cannot know at its first row whether the rows are text or numbers. So it begins with a
memory plan that suits both, and keeps its first examples: up to `MAX_ROWS` of them, with up to `MAX_ENTRIES` entries,
and fewer if the later ones have no new columns (`FEWER_ROWS`). Before the next example is learned, the rule makes
another plan from the kept examples (`Declaration.planned_from`), and a new model with that plan learns these examples
again. Both engines inherit this from `BeginsTwice`. The result does not depend on how the stream is cut into blocks.
Models with `kernel=None` or few bytes (`sizes.plan.MIN_BYTES_FOR_ROWS`) keep no rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.interface import Integers, Reals, State
from budgetron.engine.records import Rows, SparseRow
from budgetron.engine.registry import rule_class
from budgetron.engine.saved_state import Arrays, Field, Layout, length, require, verify_csr, verify_tasks
from budgetron.engine.settings import Settings
from budgetron.errors import error_message

MAX_ROWS, MAX_ENTRIES = 64, 2048
"""The largest numbers of kept rows and of their entries. With more rows, the final plan would come later. More entries
would take more bytes than small budgets have."""
FEWER_ROWS = (16, 32)
"""Keep only the first 16 or 32 rows if every column of their second half also occurs in their first half."""

MAX_SIZE = 1e75
"""The largest magnitude of an entry, because the squared norm of a row must not exceed 1e150 (`first_bad_row`)."""


class Block(NamedTuple):
    """The arguments of `Engine.learn`, for sparse rows."""

    rows: SparseRow
    codes: NDArray[np.int32]
    task_ids: Integers
    clusters: Integers
    weights: Reals | None
    offsets: Reals | None

    def part(self, start: int, stop: int) -> Block:
        """Return the examples from `start` to `stop`."""
        first, last = self.rows.indptr[start], self.rows.indptr[stop]
        rows = SparseRow(
            self.rows.indptr[start : stop + 1] - first, self.rows.indices[first:last], self.rows.data[first:last]
        )
        others = (None if values is None else values[start:stop] for values in self[1:])
        return Block(rows, *others)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FirstRows:
    """The kept examples, as arrays of a saved state. The arrays are never changed: `plus` returns a new object."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]
    codes: NDArray[np.int32]
    task_ids: Integers
    clusters: Integers
    weights: Reals
    offsets: Reals  # (rows, outputs), or (rows, 0) for a model without offsets

    @classmethod
    def none(cls, settings: Settings) -> Self:
        """Return an object without examples."""
        integers = np.zeros(0, dtype=np.int64)
        return cls(
            np.zeros(1, dtype=np.int64), np.zeros(0, np.int32), np.zeros(0, settings.dtype), np.zeros(0, np.int32),
            integers, integers, np.zeros(0), np.zeros((0, 0)),
        )  # fmt: skip

    @classmethod
    def of_state(cls, state: State) -> Self:
        return cls(**{field.name: np.asarray(state[f"first_{field.name}"]) for field in fields(cls)})

    def state(self) -> State:
        return {f"first_{field.name}": getattr(self, field.name).copy() for field in fields(self)}

    def __len__(self) -> int:
        return len(self.codes)

    def room(self, block: Block) -> int:
        """Return how many of the first examples of a block are to be kept, in addition to those kept already."""
        entries = block.rows.indptr[1 : 1 + MAX_ROWS - len(self)] - block.rows.indptr[0]
        n = int(np.searchsorted(entries, MAX_ENTRIES - len(self.indices), side="right"))
        together = self.plus(block.part(0, n))
        for rows in FEWER_ROWS:
            if len(self) <= rows <= len(together):
                half, end = together.indptr[[rows // 2, rows]]
                if np.isin(together.indices[half:end], together.indices[:half]).all():
                    return rows - len(self)
        return n

    def plus(self, block: Block) -> FirstRows:
        """Return these examples followed by those of a block."""
        n, (indptr, indices, data) = len(block.codes), block.rows
        weights = np.ones(n) if block.weights is None else block.weights
        offsets = np.zeros((n, 0)) if block.offsets is None else block.offsets
        offsets = offsets if offsets.ndim == 2 else offsets[:, None]
        if len(self) == 0:
            # Copies, because the caller may change its arrays after the call.
            return FirstRows(
                indptr - indptr[0], indices.copy(), data.copy(), block.codes.copy(), block.task_ids.copy(),
                block.clusters.copy(), weights.copy(), offsets.copy(),
            )  # fmt: skip
        ends = np.concatenate([self.indptr, self.indptr[-1] + indptr[1:] - indptr[0]])
        return FirstRows(
            ends, np.concatenate([self.indices, indices]), np.concatenate([self.data, data]),
            np.concatenate([self.codes, block.codes]), np.concatenate([self.task_ids, block.task_ids]),
            np.concatenate([self.clusters, block.clusters]), np.concatenate([self.weights, weights]),
            np.concatenate([self.offsets, offsets]),
        )  # fmt: skip

    def without(self, task_id: int) -> FirstRows:
        """Return the examples of all other tasks."""
        kept, sizes = self.task_ids != task_id, np.diff(self.indptr)
        entries = np.repeat(kept, sizes)
        per_row = {name: getattr(self, name)[kept] for name in ("codes", "task_ids", "clusters", "weights", "offsets")}
        ends = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64)
        return replace(self, indptr=ends, indices=self.indices[entries], data=self.data[entries], **per_row)

    def block(self) -> Block:
        """Return the examples as the arguments of `Engine.learn`."""
        rows = SparseRow(self.indptr, self.indices, self.data)
        offsets = self.offsets if self.offsets.shape[1] else None
        return Block(rows, self.codes, self.task_ids, self.clusters, self.weights, offsets)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, field.name).nbytes for field in fields(self))


def most_bytes(settings: Settings) -> int:
    """Return the largest `nbytes` of the first rows of a model."""
    entry = 4 + np.dtype(settings.dtype).itemsize
    return MAX_ENTRIES * entry + (MAX_ROWS + 1) * 8 + MAX_ROWS * (4 + 3 * 8 + 8 * settings.n_outputs)


def layout(settings: Settings, arrays: Arrays) -> Layout:
    """Return the fields of `FirstRows.state`."""
    n, entries = length(arrays, "first_codes"), length(arrays, "first_indices")
    offsets = arrays["first_offsets"].shape[-1] if "first_offsets" in arrays else 0
    return {
        "first_indptr": Field("int64", (n + 1,)), "first_indices": Field("int32", (entries,)),
        "first_data": Field(settings.dtype, (entries,)), "first_codes": Field("int32", (n,)),
        "first_task_ids": Field("int64", (n,)), "first_clusters": Field("int64", (n,)),
        "first_weights": Field("float64", (n,)), "first_offsets": Field("float64", (n, offsets)),
    }  # fmt: skip


def verify(settings: Settings, arrays: Arrays) -> None:
    """Reject first rows of a model file that are too many, out of range, or not valid CSR."""
    codes, indices = arrays["first_codes"], arrays["first_indices"]
    most = min(MAX_ROWS, int(arrays["n_seen"][0]))
    require(len(codes) <= most, "state.first_codes", f"at most {most}", str(len(codes)))
    require(len(indices) <= MAX_ENTRIES, "state.first_indices", f"at most {MAX_ENTRIES}", str(len(indices)))
    verify_csr("state.first_", arrays["first_indptr"], indices, settings.n_features)
    # Rows with larger values are rejected before they are learned, so no model has kept one.
    require((np.abs(arrays["first_data"]) <= MAX_SIZE).all(), "state.first_data", f"at most {MAX_SIZE:g}")
    classes = max(2, settings.n_outputs)
    require(((codes >= 0) & (codes < classes)).all(), "state.first_codes", f"classes from 0 to {classes - 1}")
    require((arrays["first_weights"] >= 0).all(), "state.first_weights", "not negative")
    width = arrays["first_offsets"].shape[1]
    require(width in (0, settings.n_outputs), "state.first_offsets", f"0 or {settings.n_outputs} per row", str(width))
    verify_tasks(settings, "state.first_task_ids", arrays["first_task_ids"], arrays["first_clusters"])


class BeginsTwice(ABC):
    """The base class of both engines: keeps the first rows, then begins again with a plan made from them."""

    settings: Settings
    first_rows: FirstRows | None = None  # None once they have been used, and for models that keep none

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if rule_class(settings.rule).keeps_first_rows(settings):
            self.first_rows = FirstRows.none(settings)

    def learn_first(
        self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers, weights: Reals | None,
        offsets: Reals | None,
    ) -> tuple[Reals, NDArray[np.uint8]]:  # fmt: skip
        """Learn a block while the first rows are kept. Arguments and results are those of `Engine.learn`."""
        assert self.first_rows is not None and not isinstance(X, np.ndarray)
        rows = SparseRow(X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False), X.data)
        block = Block(rows, codes, task_ids, clusters, weights, offsets)
        n = self.first_rows.room(block)
        if n == len(codes):
            first_rows = self.first_rows.plus(block)
            learned = self._learn(*block)
            self.first_rows = first_rows
            return learned
        # The first rows end in this block or before it. All steps work on copies, so that the model is unchanged if
        # memory runs out.
        copy = type(self).restore(self.settings, self.state())
        begun, flags_begun = copy._learn(*block.part(0, n))
        new = copy._begun_again(self.first_rows.plus(block.part(0, n)))
        rest, flags_rest = new._learn(*block.part(n, len(codes)))
        self._become(new)
        return np.concatenate([begun, rest]), np.concatenate([flags_begun, flags_rest])

    def _begun_again(self, first_rows: FirstRows) -> Self:
        """Return a new model that is planned from the first rows and has learned them."""
        rule = rule_class(self.settings.rule)
        settings = rule.planned_from(self.settings, first_rows, self._is_compiled())
        try:
            new = type(self)(settings)
        except MemoryError:
            remedy = "The model is unchanged. Lower its budget with resize, or train a new model with a smaller budget."
            message = error_message(
                rule.__name__, "budget", "small enough for this machine's memory", "a larger one", remedy
            )
            raise MemoryError(message) from None
        new._learn(*first_rows.block())
        # The counts are those of the whole stream: they include the mistakes under the first plan, and the examples of
        # forgotten tasks.
        new._set_counts(self.n_seen, self.n_mistakes)
        return new

    def forget(self, task_id: int) -> None:
        """Remove a task's stored examples, its row of weights, and its examples among the first rows."""
        if self.first_rows is not None:
            self.first_rows = self.first_rows.without(task_id)
        self._forget(task_id)

    @classmethod
    @abstractmethod
    def restore(cls, settings: Settings, state: State) -> Self: ...

    @abstractmethod
    def state(self) -> State: ...

    @property
    @abstractmethod
    def n_seen(self) -> int: ...

    @property
    @abstractmethod
    def n_mistakes(self) -> int: ...

    @abstractmethod
    def _learn(
        self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers, weights: Reals | None,
        offsets: Reals | None,
    ) -> tuple[Reals, NDArray[np.uint8]]:  # fmt: skip
        """Learn a block with the rule."""

    @abstractmethod
    def _forget(self, task_id: int) -> None:
        """Remove what the rule has stored for a task."""

    @abstractmethod
    def _set_counts(self, n_seen: int, n_mistakes: int) -> None:
        """Change the numbers of examples and of mistakes."""

    @abstractmethod
    def _become(self, new: Self) -> None:
        """Take over the settings and the state of `new`. Other threads may predict at the same time."""

    @abstractmethod
    def _is_compiled(self) -> bool: ...
