"""Use a learner as a river classifier, with tasks.

>>> from budgetron import Budgetron
>>> from budgetron.compat.river import Classifier
>>> from river import datasets, evaluate, metrics, preprocessing
>>> model = preprocessing.StandardScaler() | Classifier(Budgetron())
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.85
True

A wrapper is needed because river differs from scikit-learn and from this library in three points: whether a copy keeps
the learned state, whether a model predicts before it has learned anything, and what `learn_one` returns (None in river,
the margin here).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from budgetron.errors import InputError, import_extra, input_type_error, shown
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows
from budgetron.learners.learner import Learner

MiniBatchClassifier: Any = import_extra("compat.river", "river.base", "river").MiniBatchClassifier

__all__ = ["Classifier"]


class Classifier(MiniBatchClassifier):  # type: ignore[misc]
    """Wrap any learner as a river classifier.

    It learns dicts one by one or data frames in blocks, and works in pipelines and in `progressive_val_score`. It
    predicts from the first call on, before it has learned anything.

    Parameters
    ----------
    model : a learner, such as Budgetron()
        The classifier learns with a copy, the attribute `learner`, which starts from the learned state of this model.
    task : str, optional
        The feature that names the task; it is removed from x. Without it, pass `task=` to each call: river's pipelines
        and evaluation forward it if an example of the stream is ``(x, y, {"task": ...})``.
    classes : sequence of labels, optional
        All labels. Required unless they are booleans, 0 and 1, or −1 and 1.
    features : sequence of str, optional
        The features of a dense row; a missing feature is 0, and features with other names are ignored. Dense rows are
        faster, and better for a few measurements. Without this list, every feature name is hashed, and new names may
        appear at any time.

    Attributes
    ----------
    learner : the wrapped learner, with `budget_share_`, `save` and so on

    Examples
    --------
    >>> from budgetron import Budgetron, kernels
    >>> from budgetron.compat.river import Classifier
    >>> spam = Classifier(Budgetron(budget=2, kernel=kernels.Gaussian(gamma=0.5)), task="user", classes=["ham", "spam"])
    >>> for mail, label in [
    ...     ({"user": "ann", "offer": 2, "sender": "shop"}, "spam"),
    ...     ({"user": "ann", "lunch": 1, "sender": "bob"}, "ham"),
    ...     ({"user": "bob", "offer": 1, "sender": "shop"}, "spam"),
    ... ] * 5:
    ...     spam.learn_one(mail, label)
    >>> spam.predict_one({"user": "cid", "offer": 1})
    'spam'
    >>> spam.learner.n_seen_
    15
    """

    def __init__(
        self,
        model: Learner,
        task: str | None = None,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(model, Learner):
            raise input_type_error("Classifier", "model", "a learner, such as Budgetron()", shown(model))
        if model.task_column is not None:
            raise InputError(
                "Classifier: the model has a task_column, which needs columns in a fixed order. "
                "Name the feature with the task instead: Classifier(model, task=...)"
            )
        self.model = model
        self.task = task
        self.classes = classes
        self.features = features
        self.learner: Any = copy.deepcopy(model) if model.__sklearn_is_fitted__() else clone(model)
        self._columns = None if features is None else {name: column for column, name in enumerate(features)}

    # ---- one by one

    def learn_one(self, x: Mapping[str, Any], y: Any, task: Hashable = None, w: float = 1.0) -> None:
        """Learn one example; `w` is its weight, for a learner that accepts weights."""
        row, task = self._row(x, task)
        weight = {} if w == 1.0 else {"sample_weight": w}
        is_fitted = self.learner.__sklearn_is_fitted__()
        with _errors_name_the_classifier():
            self.learner.learn_one(row, y, task=task, classes=None if is_fitted else self.classes, **weight)

    def predict_one(self, x: Mapping[str, Any], task: Hashable = None) -> Any:
        """Return the predicted label; the first class before anything is learned."""
        row, task = self._row(x, task)
        return self.learner.predict_one(row, task=task) if self.learner.__sklearn_is_fitted__() else self._labels()[0]

    def predict_proba_one(self, x: Mapping[str, Any], task: Hashable = None) -> dict[Any, float]:
        """Return the probability of each class, for a learner with probabilities."""
        self._check_probabilities()
        row, task = self._row(x, task)
        if self.learner.__sklearn_is_fitted__():
            return self.learner.predict_proba_one(row, task=task)  # type: ignore[no-any-return]
        labels = self._labels()
        return dict.fromkeys(labels, 1.0 / len(labels))

    # ---- in blocks

    def learn_many(self, X: Any, y: Any, task: Sequence[Any] | None = None) -> None:
        """Learn the rows of a data frame in order."""
        rows, tasks = self._rows(X, task)
        is_fitted = self.learner.__sklearn_is_fitted__()
        with _errors_name_the_classifier():
            self.learner.partial_fit(rows, y, tasks=tasks, classes=None if is_fitted else self.classes)

    def predict_many(self, X: Any, task: Sequence[Any] | None = None) -> Any:
        """Return the labels of a data frame's rows, as a Series with the same index."""
        rows, tasks = self._rows(X, task)
        if self.learner.__sklearn_is_fitted__():
            return _series(self.learner.predict(rows, tasks=tasks), X)
        return _series(np.array(self._labels()[:1] * len(X)), X)

    def predict_proba_many(self, X: Any, task: Sequence[Any] | None = None) -> Any:
        """Return the probabilities of the classes, as a data frame with one column per class."""
        self._check_probabilities()
        rows, tasks = self._rows(X, task)
        pandas = import_extra("Classifier", "pandas", "river")
        if not self.learner.__sklearn_is_fitted__():
            labels = self._labels()
            return pandas.DataFrame(1.0 / len(labels), index=X.index, columns=labels)
        probabilities = self.learner.predict_proba(rows, tasks=tasks)
        return pandas.DataFrame(probabilities, index=X.index, columns=self.learner.classes_)

    # ---- rows

    def _row(self, x: Mapping[str, Any], task: Hashable) -> tuple[Any, Hashable]:
        """Return the features of x without the task, in the form that the learner accepts, and the task."""
        if self.task is not None:
            if task is None:
                if self.task not in x:
                    raise InputError(
                        f"Classifier: x has no feature {shown(self.task)}, which names the task; got {shown(dict(x))}. "
                        "Add it, or pass task= to this call."
                    )
                task = x[self.task]
            x = {name: value for name, value in x.items() if name != self.task}
        return (x if self._columns is None else self._dense(x)), task

    def _dense(self, x: Mapping[str, Any]) -> Any:
        """Return x as a dense row: missing features are 0, and unknown ones are ignored."""
        columns = self._columns
        assert columns is not None
        row = np.zeros(len(columns))
        try:
            for name, value in x.items():
                if name in columns:
                    row[columns[name]] = value
        except (TypeError, ValueError):
            raise input_type_error("Classifier", f"feature {shown(name)}", "a number", shown(value)) from None
        return row

    def _rows(self, X: Any, task: Sequence[Any] | None) -> tuple[Any, Any]:
        """Return the rows of a data frame without the task column, in the form that the learner accepts, and the tasks.
        """
        tasks: Any = task
        if self.task is not None:
            if task is None:
                tasks = X[self.task].to_numpy()
            X = X.drop(columns=self.task)
        if self.features is not None:
            return X.reindex(columns=list(self.features), fill_value=0.0).to_numpy(), tasks
        return hashed_rows("Classifier", X.to_dict("records"), DICT_FEATURES), tasks

    # ---- river's interface

    def _labels(self) -> list[Any]:
        return [False, True] if self.classes is None else sorted(self.classes)

    def _check_probabilities(self) -> None:
        if not hasattr(self.learner, "predict_proba"):
            who = type(self.learner).__name__
            # The error that river's evaluation expects from a classifier without probabilities.
            raise NotImplementedError(f"{who} has no probabilities, only margins. Budgetron has both.")

    @property
    def _multiclass(self) -> bool:
        return self.classes is not None and len(self.classes) > 2

    @property
    def _raw_memory_usage(self) -> int:
        """Return the bytes allocated by the learner; river's own measure would not count the memory of the core."""
        return self.learner.memory_bytes_ if self.learner.__sklearn_is_fitted__() else 0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from budgetron.learners import Budgetron

        yield {"model": Budgetron(budget=20)}


@contextmanager
def _errors_name_the_classifier() -> Iterator[None]:
    """Correct the remedy of errors about labels: a classifier gets its classes when it is made, and has no `fit`."""
    try:
        yield
    except InputError as error:
        in_first_call = r"Name all classes in the first call with classes=\[\.\.\.\](, or fit again)?"
        raise type(error)(re.sub(in_first_call, "Name all: Classifier(model, classes=[...])", str(error))) from None


def _series(values: Any, X: Any) -> Any:
    return import_extra("Classifier", "pandas", "river").Series(values, index=X.index)
