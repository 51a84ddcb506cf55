"""A labelled stream for `run`, `compare` and `tune`: its rows, its classes, and checks of its label column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from budgetron import io
from budgetron.cli.options import StreamOptions
from budgetron.cli.signals import SignalGuard
from budgetron.errors import refuse, shown

_MAX_SHOWN = 5
_MAX_GUESSED_CLASSES = 20  # a guessed label column with more values is probably not the label


class Rows(NamedTuple):
    """Consecutive rows of the stream."""

    X: Any
    y: NDArray[Any]
    tasks: Any
    weights: Any


class LabelledStream:
    """Reads a stream with labels; `classes` are to be passed to a learner with its first rows."""

    def __init__(
        self,
        who: str,
        text: StreamOptions,
        columns: Any = None,
        classes: Sequence[Any] | None = None,
        skip: int = 0,
    ) -> None:
        self._who, self._text = who, text
        self.rows_read = skip  # including those that --skip left out
        self._tasks: set[Any] | None = None
        self._unknown_tasks: list[str] = []
        self._n_unknown_tasks = 0
        self.stream = io.read(
            text.source,
            format=text.file_format,
            label=text.label,
            task=text.task,
            drop=text.drop,
            text=text.text,
            categorical=text.categorical,
            columns=columns,
            on_error=text.on_error,
            skip=skip,
            limit=text.limit,
        )
        # The stream is open from here on, so it must be closed if the classes are wrong.
        try:
            if classes is not None:
                self.stream.classes = classes
            elif text.classes:
                self.stream.classes = _parsed_classes(who, text.classes, self.stream.columns)
        except BaseException:
            self.stream.close()
            raise

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
        return int(self.stream.n_bad) + self._n_unknown_tasks

    @property
    def bad(self) -> list[str]:
        """The first few skipped lines, with number, reason and content."""
        lines = [f"line {line.number:,}: {line.reason}, in {shown(line.content)}" for line in self.stream.bad]
        return lines + self._unknown_tasks

    def blocks(self, guard: SignalGuard) -> Iterator[Rows]:
        """Yield blocks until the stream ends, the limit is reached or a signal comes."""
        begun = False
        for block in guard.blocks(self.stream):
            # Only the first block is checked: later blocks of a long stream may well contain a single label.
            if not begun:
                self._check(block.y)
                begun = True
            self.rows_read += len(block.rows)
            rows = self._without_unknown_tasks(block)
            if len(rows.y):
                yield rows

    def skip_unknown_tasks(self, models: Iterable[Any]) -> None:
        """With --on-error skip, skip rows of tasks that are missing in the graph of any of these models."""
        if self._text.on_error == "skip":
            # An open graph accepts any task. Several models learn the same rows, hence the intersection.
            named = [set(model.graph.tasks) for model in models if not model.graph.is_open]
            self._tasks = set.intersection(*named) if named else None

    def _without_unknown_tasks(self, block: Any) -> Rows:
        if self._tasks is None or block.tasks is None:
            return Rows(block.X, block.y, block.tasks, block.weights)
        known = np.array([task in self._tasks for task in block.tasks.tolist()])
        for place in np.flatnonzero(~known)[: _MAX_SHOWN - len(self._unknown_tasks)].tolist():
            task = shown(block.tasks[place])
            self._unknown_tasks.append(f"line {block.rows[place]:,}: the graph does not name task {task}")
        self._n_unknown_tasks += int((~known).sum())
        weights = None if block.weights is None else block.weights[known]
        return Rows(block.X[known], block.y[known], block.tasks[known], weights)

    def _check(self, labels: NDArray[Any]) -> None:
        """Reject a label column that cannot be right, judging by the first rows."""
        found = np.unique(labels).tolist()
        label = self.stream.columns.label
        if len(found) > _MAX_GUESSED_CLASSES and self._text.label is None and not self._text.classes:
            raise refuse(
                self._who,
                "the label",
                "a column with few values",
                f"column {label!r}, a guess, with {len(found):,} values in the first {len(labels):,} rows",
                "Name the column with --label COLUMN.",
            )
        # The labels −1, 0 and 1 need no second label: learners know which of them is positive.
        if self.classes is None and found[0] not in (-1, 0, 1):
            raise refuse(
                self._who,
                "the label",
                f"a column with two values or more in the first {len(labels):,} rows",
                f"only {shown(found[0])} in column {label!r}",
                "Name all labels with --classes A,B; shuffle a file that is sorted by label.",
            )


def _parsed_classes(who: str, classes: tuple[str, ...], columns: Any) -> list[Any]:
    """The labels of --classes, as integers if the stream's labels are integers."""
    if not columns.plan.whole_labels:
        return sorted(set(classes))
    try:
        return sorted({int(label) for label in classes})
    except ValueError:
        accepted = "whole numbers, as the labels of the stream are"
        raise refuse(who, "--classes", accepted, shown(",".join(classes))) from None
