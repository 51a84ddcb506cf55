"""Decisions of a sharded model, by an operating point: the rule that turns margins into decisions.

`ShardDeciding` is a base class of `ShardedModel`. Its process, the coordinator, sees the margins of all shards, so it
has the only operating point. The point belongs to the prototype of `input_validation`, so it is part of the record of a
directory and of the files that `save` writes. After a crash, the counts since the record was last written may be
missing: `snapshot` and `close` write it, but the automatic snapshots of shards do not. `ShardedHost` loses no counts,
because it stores the point in its journal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.decisions import OperatingPoint
from budgetron.distributed.directory.on_disk import OnDisk
from budgetron.distributed.input_validation import InputValidator


class ShardDeciding(OnDisk):
    """The methods of a sharded model that decide by an operating point, and that count learned examples in it."""

    # ---- defined by `ShardedModel`

    @abstractmethod
    def _get_validator(self) -> InputValidator:
        """The validator, created at the first call."""

    @abstractmethod
    def decision_function(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> Any:
        """The margins of the rows."""

    # ---- decisions

    @property
    def operating_point(self) -> OperatingPoint | None:
        """How `decide` turns margins into decisions: an `OperatingPoint`, or None. It counts learned examples."""
        owner = self._validator.prototype if hasattr(self, "_validator") else self.learner
        point: OperatingPoint | None = owner.operating_point
        return point

    @operating_point.setter
    def operating_point(self, point: OperatingPoint | None) -> None:
        self._get_validator().prototype.operating_point = point

    def changed_point(self, before: OperatingPoint | None, settings: dict[str, Any] | None) -> OperatingPoint | None:
        """Return a point with new settings and the counts of the old point; None without settings."""
        return self._get_validator().prototype.changed_point(before, settings)

    def change_operating_point(self, settings: dict[str, Any] | None) -> None:
        """Change the settings of the operating point; None removes it. See `Learner.change_operating_point`."""
        self._get_validator().prototype.change_operating_point(settings)

    def decide(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> NDArray[Any]:
        """Decide on each row by the operating point: a label, or None where a person should be asked."""
        return self._get_validator().prototype.decided(self.decision_function(X, tasks=tasks, offset=offset))

    def decide_one(self, x: Any, *, task: Hashable = None, offset: Any = None) -> Any:
        """Decide on one example, an array row or a dict of features: a label, or None."""
        self._check_fitted()
        row, tasks = self._validator.one_row(x, task)
        return self.decide(row, tasks=tasks, offset=None if offset is None else [offset])[0]

    def count_learned(
        self, point: OperatingPoint | None, margins: NDArray[np.float64], labels: Any
    ) -> OperatingPoint | None:
        """Count learned examples in an operating point. Rows whose margins a shard has deleted (NaN) are left out."""
        classes = self._validator.classes
        if point is None or not classes.settled or not len(margins):
            return point
        if point.labels is None:
            point.begin(classes.values)
        has_margin = np.isfinite(margins if margins.ndim == 1 else margins[:, 0])
        point.count_margins(margins[has_margin], classes.codes(type(self).__name__, np.asarray(labels))[has_margin])
        return point

    def _count_rows(self, margins: NDArray[np.float64], labels: Any, learned: NDArray[np.bool_] | None) -> None:
        """Count the rows of a call in the operating point, without those that were learned before the call."""
        point = self.operating_point
        if point is not None:
            new = slice(None) if learned is None else ~learned
            with self._counting:
                self.count_learned(point, margins[new], np.asarray(labels)[new])
