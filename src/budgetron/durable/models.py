"""The model that a host keeps: to a file's bytes and back, and one block at a time.

A model with columns (trained by `budgetron run`) is given raw records; its running means are part of what is learned,
so they are put back should the block be refused.
"""

from __future__ import annotations

import threading
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable import blocks
from budgetron.durable.blocks import Block
from budgetron.durable.refusals import NothingLearned
from budgetron.errors import refuse, shown
from budgetron.io import columns_of
from budgetron.learners.files import LEARNERS
from budgetron.learners.learner import Learner
from budgetron.learners.saved import content_of, model_of
from budgetron.persist import unpacked
from budgetron.persist.schema import decode_record as read_schema

MOST_BYTES = 2**34  # of a model that is restored: our own file, or an administrator's


class Kept:
    """A model and, where it carries them, its columns."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, Learner):
            raise refuse("Host", "model", "a learner of budgetron, whose file is kept", shown(type(model)))
        self.model = model
        self.columns = columns_of(model)
        self._encoding = threading.Lock()  # a prediction must not see scales that are half learned

    @property
    def begun(self) -> bool:
        return hasattr(self.model, "_engine")

    @property
    def width(self) -> int | None:
        """Columns of the rows, once they are known."""
        return int(self.model.n_features_in_) if self.begun else None

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse, once the model has begun."""
        return bool(self.model._engine.settings.sparse)

    def rows(self, X: Any) -> Any:
        """X for a prediction: dicts as the columns encode them, or hashed."""
        if not self.begun:
            raise NothingLearned
        if not blocks.are_records(X):
            return X
        if self.columns is not None:
            with self._encoding:
                return self.columns.encode(X)
        return blocks.hashed(X, self.width)

    def learn(self, block: Block) -> NDArray[np.float64]:
        """The margins before learning; or a refusal, with everything as it was."""
        if block.kind == "forget":
            if self.begun:
                self.model.forget_task(block.tasks[0])
            return np.empty(0)
        weights = {} if block.sample_weight is None else {"sample_weight": block.sample_weight}
        if block.kind != "records":
            return self._margins(block.X, block, weights)
        if self.columns is None:  # another model was restored while this waited
            raise refuse("Host", "X", "rows for a model without columns", "raw records")
        before = deepcopy(self.columns)
        try:
            with self._encoding:
                X = self.columns.encode(block.X, learn=True)
            return self._margins(X, block, weights)
        except BaseException:
            self.columns = self.model._columns = before
            raise

    def _margins(self, X: Any, block: Block, weights: dict[str, Any]) -> NDArray[np.float64]:
        margins: NDArray[np.float64] = self.model.predict_then_learn(
            X, block.y, tasks=block.tasks, classes=block.classes, **weights
        )
        return margins

    def content(self) -> bytes:
        """The model file."""
        with self.model._guard:
            return content_of(self.model)


def kept_of(content: bytes, limit: int = MOST_BYTES) -> Kept:
    """The model of a model file's bytes; nothing in them is believed before it was checked."""
    text, arrays = unpacked(content)
    saved = read_schema(text)
    return Kept(model_of(LEARNERS[saved.learner], saved, arrays, limit, None))
