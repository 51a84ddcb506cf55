"""`HostReads`: predictions of a host, and the state of its model and log.

A base class of `Host`. Nothing here writes to disk or changes the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.host_state import HostState
from budgetron.durable.hosted_model import HostedModel
from budgetron.durable.recovery import Recovery


class HostReads:
    """Predictions and properties of a host."""

    def __init__(self, state: HostState) -> None:
        self._state = state

    # ---- predictions, which are not logged

    def predict(self, X: Any, tasks: Any = None, offset: Any = None) -> NDArray[Any]:
        """Predict labels with the current model; X and `offset` as for `learn`."""
        hosted = self._state.hosted
        labels: NDArray[Any] = hosted.model.predict(hosted.rows(X), tasks=tasks, offset=offset)
        return labels

    def decision_function(self, X: Any, tasks: Any = None, offset: Any = None) -> NDArray[np.float64]:
        """Compute margins with the current model; X and `offset` as for `learn`."""
        hosted = self._state.hosted
        margins: NDArray[np.float64] = hosted.model.decision_function(hosted.rows(X), tasks=tasks, offset=offset)
        return margins

    # ---- state

    @property
    def model(self) -> Any:
        """The current model, for reading. Learn through `Host.learn` only: other changes are not on disk."""
        return self._state.hosted.model

    @property
    def hosted_model(self) -> HostedModel:
        """The current model and its columns, as one object: a restore replaces both in one step."""
        return self._state.hosted

    @property
    def columns(self) -> Any:
        """The columns that encode raw records, or None."""
        return self._state.hosted.columns

    @property
    def position(self) -> int:
        """The number of the last record. Rejected records and replacements of the model are counted, too."""
        return self._state.log.position

    @property
    def snapshot_record(self) -> int:
        """The number of the last record that the newest snapshot contains; 0 before the first snapshot."""
        return max(self._state.log.snapshots, default=0)

    @property
    def oldest_snapshot(self) -> int:
        """The number of the last record in the oldest snapshot; 0 if there is none. The log has all later records."""
        return min(self._state.log.snapshots, default=0)

    @property
    def recovery(self) -> Recovery:
        """How the model was recovered when the directory was opened."""
        return self._state.recovery

    @property
    def replayed_examples(self) -> int:
        """How many examples were learned from the log when the directory was opened."""
        return self._state.recovery.replayed_examples

    @property
    def failing(self) -> Exception | None:
        """Why the last snapshot failed, or None. Nothing is lost, because the log has all examples."""
        return self._state.snapshots.error

    @property
    def n_corrections(self) -> int:
        """The number of corrections so far."""
        return self._state.n_corrections

    @property
    def epoch(self) -> int:
        return self._state.log.epoch

    @property
    def directory(self) -> Path:
        return self._state.log.directory
