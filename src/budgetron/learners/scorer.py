"""Scorers for scikit-learn's model selection that pass tasks on to the predictions.

scikit-learn's own scorers (``scoring="roc_auc"``) pass routed metadata to the metric, but never to `predict`. A model
that was trained with tasks rejects a prediction without tasks, and cross-validation then reports NaN. `scorer` wraps a
scorer of scikit-learn, requests `tasks` through metadata routing, and passes them to the predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Self

from sklearn.metrics import get_scorer
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from budgetron.errors import input_error, shown

_PREDICTING = ("predict", "predict_proba", "decision_function")


def scorer(scoring: str | Callable[..., Any]) -> TaskScorer:
    """Return a scorer that predicts with the tasks that scikit-learn routes to it.

    Parameters
    ----------
    scoring : the name of a scorer of scikit-learn, such as "roc_auc", or a scorer made by `make_scorer`.

    >>> import numpy as np, sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> from budgetron import Budgetron, scorer
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> tasks = np.arange(300) % 3
    >>> y = np.where(tasks == 1, X[:, 0] > 0, X[:, 0] < 0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     auc = cross_val_score(Budgetron(), X, y, scoring=scorer("roc_auc"), params={"tasks": tasks}, cv=3)
    >>> bool((auc > 0.9).all())
    True
    """
    try:
        scorer = get_scorer(scoring)
    except ValueError:  # scikit-learn raises it for an unknown name, and also for a value of a wrong type
        scorer = None
    if scorer is None or not callable(scorer):
        accepted = 'the name of a scorer of scikit-learn, such as "roc_auc", or a scorer'
        remedy = "sklearn.metrics.get_scorer_names() lists them."
        raise input_error("scorer", "scoring", accepted, shown(scoring), remedy)
    return TaskScorer(scorer)


class TaskScorer:
    """A scorer of scikit-learn that also takes `tasks`; made by `scorer`."""

    def __init__(self, scorer: Callable[..., Any]) -> None:
        self._scorer = scorer
        self._tasks: bool | str | None = True

    def __call__(self, estimator: Any, X: Any, y: Any, *, tasks: Any = None, **metadata: Any) -> Any:
        """Score the predictions of X for these tasks."""
        return self._scorer(estimator if tasks is None else _WithTasks(estimator, tasks), X, y, **metadata)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that the scorer requests: `tasks`, and the metadata that the metric requests."""
        request = MetadataRequest(owner=repr(self))
        if hasattr(self._scorer, "get_metadata_routing"):
            # Keep the requests of the wrapped scorer, such as sample_weight, and add `tasks`.
            for name, alias in get_routing_for_object(self._scorer).score.requests.items():
                request.score.add_request(param=name, alias=alias)
        request.score.add_request(param="tasks", alias=self._tasks)
        return request

    def set_score_request(self, *, tasks: bool | str | None = True, **requests: bool | str | None) -> Self:
        """Request `tasks` under another name, or further metadata for the metric, such as ``sample_weight=True``."""
        self._tasks = tasks
        if requests:
            self._scorer.set_score_request(**requests)  # type: ignore[attr-defined]
        return self

    def __getattr__(self, name: str) -> Any:
        # TunedThresholdClassifierCV reads `_score_func` and predicts without tasks, so it cannot work with this scorer.
        remedy = " TunedThresholdClassifierCV passes no tasks: put the task into a column of X, with task_column=."
        raise AttributeError(f"A scorer with tasks has no {name!r}.{remedy if name == '_score_func' else ''}")

    def __repr__(self) -> str:
        return f"scorer({self._scorer!r})"


class _WithTasks:
    """Wraps an estimator and adds `tasks` to every prediction, because a scorer calls `predict(X)` without them."""

    def __init__(self, estimator: Any, tasks: Any) -> None:
        self._estimator, self._tasks = estimator, tasks

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._estimator, name)
        if name not in _PREDICTING:
            return value

        @wraps(value)
        def predicting(X: Any, **options: Any) -> Any:
            return value(X, tasks=self._tasks, **options)

        return predicting

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()
