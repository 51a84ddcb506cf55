"""`HostedModel`: a learner together with the columns that encode raw records for it.

`Host`, recovery and the service learn and predict through it. A model with columns (trained by `budgetron run`) takes
raw records, that is, dicts of field values. Encoding a block for learning updates the running means of the columns. If
the model then rejects the block, the old means are restored.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron.decisions import OperatingPoint
from budgetron.durable import blocks
from budgetron.durable.blocks import LoggedBlock
from budgetron.durable.errors import NothingLearned
from budgetron.errors import input_error, shown
from budgetron.io import columns_of
from budgetron.learners.input.hashing import names_of
from budgetron.learners.input.nested import flattened
from budgetron.learners.input.validation import Examples, matrix
from budgetron.learners.inspection.explanation import Explanation
from budgetron.learners.learner import Learner
from budgetron.learners.lifecycle.saved import content_of, model_of
from budgetron.persist import unpack
from budgetron.persist.schema import decode_record as read_schema

MAX_BYTES = 2**34  # the largest model to restore; a high limit, because only administrators can restore one


class HostedModel:
    """A model and its columns, if it has any."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, Learner):
            raise input_error("Host", "model", "a learner of budgetron", shown(type(model)), "For example Budgetron().")
        self.model = model
        self.columns = columns_of(model)
        self._encoding = threading.Lock()  # a prediction must not see running means in the middle of an update

    @property
    def is_fitted(self) -> bool:
        """Whether the model has learned a first block."""
        return bool(self.model._is_fitted)

    @property
    def width(self) -> int | None:
        """The number of features, or None before the first block."""
        return int(self.model.n_features_in_) if self.is_fitted else None

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse. Known after the first block."""
        return bool(self.model._engine.settings.sparse)

    def rows(self, X: Any) -> Any:
        """Encode X for a prediction: dicts go through the columns if there are any, otherwise they are hashed."""
        if not self.is_fitted:
            raise NothingLearned
        if not blocks.are_records(X):
            return X
        if self.columns is not None:
            with self._encoding:
                return self.columns.encode(X)
        return blocks.hashed(X, self.width)

    def checked(self, X: Sequence[Mapping[str, Any]]) -> Any:
        """Flatten records for the log. If the model has columns, reject a record that has none of them."""
        return list(map(flattened, X)) if self.columns is None else self.columns.checked(X)

    def explain(self, X: Any, task: Any, offset: Any = None) -> Explanation:
        """Explain the prediction for one row or record. Hashed features get their names from the record."""
        rows, names = self.rows(X), None
        if blocks.are_records(X):
            names = names_of(X[0], rows.shape[1]) if self.columns is None else self.columns.names_of(X)
        x = rows if issparse(rows) else rows[0]
        explanation: Explanation = self.model.explain(x, task=task, names=names, offset=offset)
        return explanation

    def learn(self, logged: LoggedBlock) -> NDArray[np.float64]:
        """Learn a block of the log and return its margins before learning. If it is rejected, nothing changes."""
        if logged.kind == "forget":
            if self.is_fitted:
                self.model.forget_task(logged.examples.tasks[0])
            return np.empty(0)
        if logged.kind == "point":
            self.change_point(logged.examples.rows[0])
            return np.empty(0)
        if logged.kind != "records":
            return self._check_and_learn(logged.examples, logged.classes)
        if self.columns is None:  # the request was encoded for a model with columns, which has been replaced since
            raise input_error("Host", "X", "rows of numbers for a model without columns", "raw records",
                              "The model was replaced; send numbers or dicts of features.")  # fmt: skip
        before = deepcopy(self.columns)
        try:
            with self._encoding:
                X = self.columns.encode_checked(logged.examples.rows, learn=True)
            rows = matrix(type(self.model).__name__, X)
            return self._check_and_learn(replace(logged.examples, rows=rows, source=X), logged.classes)
        except BaseException:
            self.columns = self.model._columns = before
            raise

    def change_point(self, request: Mapping[str, Any]) -> None:
        """Replace or remove the operating point; `request` has the fields of `blocks.encode_point`."""
        if not request.get("continues"):
            self.model.operating_point = None
        if request:
            self.model.change_operating_point(request["settings"])

    def checked_point(self, settings: Mapping[str, Any] | None) -> bytes:
        """Check the settings of an operating point for this model, and encode them for the log."""
        model = self.model
        if settings is not None:
            point = OperatingPoint(**settings, margins=not hasattr(model, "predict_proba"))
            if self.is_fitted:
                point.check(model.classes_)
        return blocks.encode_point(settings, model.operating_point is not None)

    def _check_and_learn(self, examples: Examples, classes: Any) -> NDArray[np.float64]:
        model = self.model
        model.check_streaming()
        return model.learn_block(model.check(examples, classes))

    def content(self) -> bytes:
        """The bytes of the model file."""
        with self.model._guard:
            return content_of(self.model)


def hosted_model_from(content: bytes, limit: int = MAX_BYTES) -> HostedModel:
    """Load a model from the bytes of a model file. Everything in them is validated before it is used."""
    text, arrays = unpack(content)
    saved = read_schema(text)
    return HostedModel(model_of(saved, arrays, limit, None))
