"""A labelled stream as a command sees it: the rows asked for, and the labels there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from budgetron import io
from budgetron.cli.options import StreamText
from budgetron.cli.stopping import Stopping
from budgetron.errors import refuse, shown

_MOST_SHOWN = 5
_MOST_GUESSED = 20  # labels in a column that nobody named: more than that is no label


class Rows(NamedTuple):
    """Some rows of the stream, in order."""

    X: Any
    y: NDArray[Any]
    tasks: Any
    weights: Any


class Labelled:
    """Reads a stream with labels; `classes` are those that a learner should be told at its first rows."""

    def __init__(
        self,
        who: str,
        text: StreamText,
        columns: Any = None,
        classes: Sequence[Any] | None = None,
        skip: int = 0,
    ) -> None:
        self._who, self._text = who, text
        self.taken = skip  # rows of the stream that are behind us
        self._tasks: set[Any] | None = None
        self._strangers: list[str] = []
        self._n_strangers = 0
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
        try:
            if classes is not None:
                self.stream.classes = classes
            elif text.classes:
                self.stream.classes = _typed(who, text.classes, self.stream.columns)
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
        """Lines that were left out."""
        return int(self.stream.n_bad) + self._n_strangers

    @property
    def bad(self) -> list[str]:
        """The first few of them, with number, content and reason."""
        lines = [f"line {line.number:,}: {line.reason}, in {shown(line.content)}" for line in self.stream.bad]
        return lines + self._strangers

    def blocks(self, stopping: Stopping) -> Iterator[Rows]:
        """Blocks until the stream, the limit or a signal ends them."""
        begun = False
        for block in stopping.blocks(self.stream):
            if not begun:
                self._check(block.y)
                begun = True
            self.taken += len(block.rows)
            rows = self._of_known_tasks(block)
            if len(rows.y):
                yield rows

    def keep_to_graphs(self, models: Iterable[Any]) -> None:
        """With --on-error skip, leave out rows of tasks that a graph of these learners does not name."""
        if self._text.on_error == "skip":
            named = [set(model.graph.tasks) for model in models if not model.graph.is_open]
            self._tasks = set.intersection(*named) if named else None

    def _of_known_tasks(self, block: Any) -> Rows:
        if self._tasks is None or block.tasks is None:
            return Rows(block.X, block.y, block.tasks, block.weights)
        known = np.array([task in self._tasks for task in block.tasks.tolist()])
        for place in np.flatnonzero(~known)[: _MOST_SHOWN - len(self._strangers)].tolist():
            task = shown(block.tasks[place])
            self._strangers.append(f"line {block.rows[place]:,}: must be of a task that the graph names, not {task}")
        self._n_strangers += int((~known).sum())
        weights = None if block.weights is None else block.weights[known]
        return Rows(block.X[known], block.y[known], block.tasks[known], weights)

    def _check(self, labels: NDArray[Any]) -> None:
        """Whether the first rows look as if the label were one."""
        found = np.unique(labels).tolist()
        label = self.stream.columns.label
        if len(found) > _MOST_GUESSED and self._text.label is None and not self._text.classes:
            raise refuse(
                self._who,
                "the label",
                "a column with few values",
                f"column {label!r}, a guess, with {len(found):,} in the first {len(labels):,} rows",
                "--label COLUMN says which it is.",
            )
        if self.classes is None and found[0] not in (-1, 0, 1):
            raise refuse(
                self._who,
                "the label",
                f"of two kinds at least in the first {len(labels):,} rows",
                f"only {shown(found[0])} in column {label!r}",
                "--classes A,B names all labels; a file sorted by label should be shuffled.",
            )


def _typed(who: str, classes: tuple[str, ...], columns: Any) -> list[Any]:
    """Labels from text, whole numbers where the stream's labels are."""
    if not columns.plan.whole_labels:
        return sorted(set(classes))
    try:
        return sorted({int(label) for label in classes})
    except ValueError:
        accepted = "whole numbers, as the labels of the stream are"
        raise refuse(who, "--classes", accepted, shown(",".join(classes))) from None
