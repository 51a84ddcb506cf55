"""Learners as river classifiers, the task passed along.

>>> from budgetron import Budgetron
>>> from budgetron.compat.river import Classifier
>>> from river import datasets, evaluate, metrics
>>> model = Classifier(Budgetron(budget=100))
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
Accuracy: 90.32%

Why a wrapper? river and scikit-learn disagree where an object must be one or the other: what a copy keeps, what a
model that has seen nothing answers, and what `learn_one` gives back (nothing there; the margin here).
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from budgetron.errors import import_extra, refuse, refuse_type, shown
from budgetron.learners.hashing import DICT_FEATURES, hashed_rows
from budgetron.learners.learner import Learner

MiniBatchClassifier: Any = import_extra("compat.river", "river.base", "river").MiniBatchClassifier

__all__ = ["Classifier"]


class Classifier(MiniBatchClassifier):  # type: ignore[misc]
    """Any learner as a river classifier.

    It learns dicts one by one, or data frames in blocks, stands in pipelines and in `progressive_val_score`, and
    answers from the first call on.

    Parameters
    ----------
    model : a learner, such as Budgetron()
        Copied, with all it has learned: what the classifier learns does not reach it. The copy is `learner`.
    task : str, optional
        The feature that names the task; it is taken out of x. Otherwise give `task=` to each call: river's pipelines
        and evaluation pass it along, as ``(x, y, {"task": ...})`` in a stream.
    classes : sequence of labels, optional
        All labels. Needed where they are neither booleans nor 0, 1 and −1.
    features : sequence of str, optional
        The features of a dense row; a missing one is 0 and others are left out. This is the quicker way, and the better
        one for a handful of measurements. Without it every name is hashed, new ones may come at any time.

    Attributes
    ----------
    learner : the learner at work, with `budget_share_`, `save` and all the rest

    Examples
    --------
    >>> from budgetron import Budgetron
    >>> from budgetron.compat.river import Classifier
    >>> spam = Classifier(Budgetron(budget=2), task="user", classes=["ham", "spam"])
    >>> for mail, label in [
    ...     ({"user": "ann", "offer": 2, "sender": "shop"}, "spam"),
    ...     ({"user": "ann", "lunch": 1, "sender": "bob"}, "ham"),
    ...     ({"user": "bob", "offer": 1, "sender": "shop"}, "spam"),
    ... ] * 5:
    ...     spam.learn_one(mail, label)
    >>> spam.predict_one({"user": "cid", "offer": 1})
    'spam'
    >>> spam.learner.n_seen_, spam.learner.n_stored_
    (15, 2)
    """

    def __init__(
        self,
        model: Learner,
        task: str | None = None,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(model, Learner):
            raise refuse_type("Classifier", "model", "a learner, such as Budgetron()", shown(model))
        if model.task_column is not None:
            raise refuse("Classifier", "model", "a learner without task_column", "one", "Name the feature: task=...")
        self.model = model
        self.task = task
        self.classes = classes
        self.features = features
        self.learner: Any = copy.deepcopy(model) if model.__sklearn_is_fitted__() else clone(model)
        self._columns = None if features is None else {name: place for place, name in enumerate(features)}

    # ---- one by one

    def learn_one(self, x: Mapping[str, Any], y: Any, task: Hashable = None, w: float = 1.0) -> None:
        """Learn one example; `w` is its weight, for a learner that takes weights."""
        row, task = self._row(x, task)
        weight = {} if w == 1.0 else {"sample_weight": w}
        begun = self.learner.__sklearn_is_fitted__()
        self.learner.learn_one(row, y, task=task, classes=None if begun else self.classes, **weight)

    def predict_one(self, x: Mapping[str, Any], task: Hashable = None) -> Any:
        """The label; the first of the classes as long as nothing was learned."""
        row, task = self._row(x, task)
        return self.learner.predict_one(row, task=task) if self.learner.__sklearn_is_fitted__() else self._labels()[0]

    def predict_proba_one(self, x: Mapping[str, Any], task: Hashable = None) -> dict[Any, float]:
        """The probability of each class, for a learner that gives any."""
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
        begun = self.learner.__sklearn_is_fitted__()
        self.learner.partial_fit(rows, y, tasks=tasks, classes=None if begun else self.classes)

    def predict_many(self, X: Any, task: Sequence[Any] | None = None) -> Any:
        """The labels of a data frame's rows, as a Series with its index."""
        rows, tasks = self._rows(X, task)
        if self.learner.__sklearn_is_fitted__():
            return _series(self.learner.predict(rows, tasks=tasks), X)
        return _series(np.array(self._labels()[:1] * len(X)), X)

    def predict_proba_many(self, X: Any, task: Sequence[Any] | None = None) -> Any:
        """The probabilities of the classes, as a data frame with a column a class."""
        self._check_probabilities()
        rows, tasks = self._rows(X, task)
        pandas = import_extra("Classifier", "pandas", "river")
        if not self.learner.__sklearn_is_fitted__():
            labels = self._labels()
            return pandas.DataFrame(1.0 / len(labels), index=X.index, columns=labels)
        shares = self.learner.predict_proba(rows, tasks=tasks)
        return pandas.DataFrame(shares, index=X.index, columns=self.learner.classes_)

    # ---- rows

    def _row(self, x: Mapping[str, Any], task: Hashable) -> tuple[Any, Hashable]:
        if self.task is not None:
            if task is None:
                if self.task not in x:
                    raise refuse("Classifier", "x", f"with the feature {shown(self.task)}, its task", shown(dict(x)))
                task = x[self.task]
            x = {name: value for name, value in x.items() if name != self.task}
        return (x if self._columns is None else self._dense(x)), task

    def _dense(self, x: Mapping[str, Any]) -> Any:
        columns = self._columns
        assert columns is not None
        row = np.zeros(len(columns))
        try:
            for name, value in x.items():
                if name in columns:
                    row[columns[name]] = value
        except (TypeError, ValueError):
            raise refuse_type("Classifier", f"feature {shown(name)}", "a number", shown(value)) from None
        return row

    def _rows(self, X: Any, task: Sequence[Any] | None) -> tuple[Any, Any]:
        tasks: Any = task
        if self.task is not None:
            if task is None:
                tasks = X[self.task].to_numpy()
            X = X.drop(columns=self.task)
        if self.features is not None:
            return X.reindex(columns=list(self.features), fill_value=0.0).to_numpy(), tasks
        return hashed_rows("Classifier", X.to_dict("records"), DICT_FEATURES), tasks

    # ---- being one of river's

    def _labels(self) -> list[Any]:
        return [False, True] if self.classes is None else sorted(self.classes)

    def _check_probabilities(self) -> None:
        if not hasattr(self.learner, "predict_proba"):
            who = type(self.learner).__name__
            raise NotImplementedError(f"{who} gives margins, not probabilities. Budgetron gives both.")

    @property
    def _multiclass(self) -> bool:
        return self.classes is not None and len(self.classes) > 2

    @property
    def _raw_memory_usage(self) -> int:
        """What is really allocated, which river cannot see from outside."""
        return self.learner.memory_bytes_ if self.learner.__sklearn_is_fitted__() else 0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from budgetron.learners import Budgetron

        yield {"model": Budgetron(budget=20)}

    def _unit_test_skips(self) -> set[str]:
        """`gamma="scale"` looks at the first block, so that how a stream is cut matters; a number does not."""
        scaled = getattr(self.model.kernel, "gamma", None) == "scale"
        return {"check_learn_many_matches_learn_one"} if scaled else set()


def _series(values: Any, X: Any) -> Any:
    return import_extra("Classifier", "pandas", "river").Series(values, index=X.index)
