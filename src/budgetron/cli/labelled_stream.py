"""`LabelledStream`: reads a stream with labels for `run`, `calibrate`, `compare` and `tune`.

It checks that the first rows can be learned: the label column is plausible, and clusters name tasks of the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from budgetron import io
from budgetron.cli.options import StreamOptions
from budgetron.cli.signals import SignalGuard
from budgetron.errors import InputError, shown

BLOCK_ROWS = 4000  # a multiple of the usual window, 1,000 examples: the validator cuts blocks at the ends of windows
_MAX_GUESSED_CLASSES = 20  # a guessed label column with more different values is probably not the label


class Rows(NamedTuple):
    """A block of rows for the learner, in the order of the stream."""

    X: Any
    y: NDArray[Any]
    tasks: Any
    weights: Any
    offsets: Any = None


class LabelledStream:
    """Reads a stream with labels. Pass `classes` to the learner together with the first rows."""

    def __init__(
        self,
        who: str,
        options: StreamOptions,
        columns: Any = None,
        classes: Sequence[Any] | None = None,
        skip: int = 0,
    ) -> None:
        self._who, self._options = who, options
        self._cluster_tasks: list[Sequence[Any]] = []  # per model: the tasks in the file of --graph clusters:FILE
        self.stream = io.read(
            options.source,
            format=options.file_format,
            label=options.label,
            task=options.task,
            drop=options.drop,
            text=options.text,
            categorical=options.categorical,
            weight=options.weight,
            offset=options.offset,
            decimal=options.decimal,
            na_values=options.na_values,
            encoding=options.encoding,
            classes=classes if classes is not None else options.classes or None,
            columns=columns,
            on_error=options.on_error,
            skip=skip,
            limit=options.limit,
            block_rows=BLOCK_ROWS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    @property
    def classes(self) -> Sequence[Any] | None:
        classes: Sequence[Any] | None = self.stream.classes
        return classes

    @property
    def n_bad(self) -> int:
        """How many lines were skipped."""
        return int(self.stream.n_bad)

    @property
    def bad(self) -> list[str]:
        """The first skipped lines, with number and reason."""
        return [f"line {line.number:,}: {line.reason}, in {shown(line.content)}" for line in self.stream.bad]

    def blocks(self, guard: SignalGuard) -> Iterator[Rows]:
        """Yield blocks until the stream ends, the limit is reached or a signal arrives."""
        checked = False
        for block in guard.blocks(self.stream):
            # Only the first block is checked: later blocks of a long stream may well contain a single label.
            if not checked:
                self._check_labels(block.y)
                self._check_clusters(block.tasks)
                checked = True
            yield Rows(block.X, block.y, block.tasks, block.weights, block.offsets)

    def expect_tasks_of(self, models: Collection[Any]) -> None:
        """Treat a row as a bad line if its task is missing from the graph of one of these models."""
        # An open graph accepts any task. Several models learn the same rows, hence the intersection.
        fixed = [set(model.graph.tasks) for model in models if not model.graph.is_open]
        self.stream.tasks = set.intersection(*fixed) if fixed else None
        mappings = [getattr(model.graph, "mapped", None) for model in models]
        self._cluster_tasks = [mapping.names for mapping in mappings if mapping is not None]

    def _check_clusters(self, tasks: Any) -> None:
        """Reject clusters that contain none of the tasks of the stream, because they would silently have no effect."""
        # The distinct tasks of the first block, in the order of appearance.
        distinct = [] if tasks is None else list(dict.fromkeys(tasks.tolist()))
        for cluster_tasks in self._cluster_tasks:
            known = set(cluster_tasks)
            others = [task for task in distinct if task not in known]
            if len(others) == len(distinct):
                found = "the stream has no task column"
                if tasks is not None:
                    found = f"column {self.stream.columns.task!r} has {shown(distinct[:3])}"
                raise InputError(
                    f"{self._who}: --graph clusters names tasks such as {shown(list(cluster_tasks[:3]))}, but {found}. "
                    "Name the column of these tasks with --task COLUMN, or correct the file of the clusters."
                )
            if others:
                logging.getLogger("budgetron.graphs").warning(
                    "--graph clusters does not name %d of the %d tasks of the first rows, such as %s: each of them is "
                    "a cluster of its own.", len(others), len(distinct), shown(others[0]),
                )  # fmt: skip

    def _check_labels(self, labels: NDArray[Any]) -> None:
        """Reject a column whose values in the first rows show that it is not the label."""
        distinct = np.unique(labels).tolist()
        label = self.stream.columns.label
        if len(distinct) > _MAX_GUESSED_CLASSES and self._options.label is None and not self._options.classes:
            raise InputError(
                f"{self._who}: no --label was given, and the inferred label column {label!r} has {len(distinct):,} "
                f"different values in the first {len(labels):,} rows. Name the label column with --label COLUMN."
            )
        # One label is enough if it is −1, 0 or 1: for learners 1 is positive, −1 and 0 are negative.
        if self.classes is None and distinct[0] not in (-1, 0, 1):
            raise InputError(
                f"{self._who}: label column {label!r} contains only {shown(distinct[0])} in the first {len(labels):,} "
                "rows. Name all labels with --classes A,B, or shuffle the file if it is sorted by label."
            )
