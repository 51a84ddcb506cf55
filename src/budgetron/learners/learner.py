"""`Learner`, the base class of all learners: presets, `fit`, `explain`, `save`, and what scikit-learn needs.

Its own base classes learn and predict blocks (`block_learner`) and single examples (`single_examples`). The learning
rule itself is in the engine. The module of a learner (in `estimators/`) declares its parameters, turns them into engine
settings, and adds the methods that only this learner has.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from budgetron.engine import native
from budgetron.engine.memory import bytes_of
from budgetron.engine.registry import rule_class
from budgetron.errors import InputError, input_error, shown
from budgetron.learners.block_learner import Margins as Margins
from budgetron.learners.input import validation
from budgetron.learners.input.classes import Classes, in_known_spelling
from budgetron.learners.input.frames import check_in_memory
from budgetron.learners.input.validation import Examples
from budgetron.learners.single_examples import SingleExamples

if TYPE_CHECKING:
    from budgetron.learners.inspection.explanation import Explanation

# The attributes of a fitted model. `fit` replaces them, and removes those that the new model does not have.
_LEARNED = (
    "_guard", "_graph", "_names", "_classes", "_engine", "_tasked", "_has_offset", "n_features_in_",
    "feature_names_in_", "_columns", "_point", "_asking",
)  # fmt: skip


class Learner(SingleExamples, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The methods that all learners share."""

    paper_name: ClassVar[str | None] = None  # the paper's abbreviation; the command line accepts it as a name too
    theorem: ClassVar[int | None] = None  # number of the paper's theorem that bounds its mistakes (`budgetron.theory`)
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # name of a published learner → its parameters
    _columns: Any = None  # columns of the files that it learned from (`budgetron.io`); saved with the model
    _asking: Any = None  # the counts of `should_ask`; not in model files
    exemptions: ClassVar[Mapping[str, str]] = {}  # law of `budgetron.checks` that does not hold → reason
    # For scikit-learn's `check_estimator(..., expected_failed_checks=...)`: name of a check → why it cannot pass.
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "the rule has no step size to scale, so sample_weight is rejected"
        for name in (
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
            "check_classifiers_one_label_sample_weights",
        )
    }

    # With enable_metadata_routing=True, scikit-learn's pipelines and model selection pass these arguments on without
    # calls of `set_fit_request` and the like.
    __metadata_request__fit: ClassVar[dict[str, bool | None]] = {"tasks": True, "offset": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool | None]] = {"tasks": True, "offset": True}
    __metadata_request__predict: ClassVar[dict[str, bool | None]] = {"tasks": True, "offset": True, "n_jobs": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool | None]] = {
        "tasks": True, "offset": True, "n_jobs": True,
    }  # fmt: skip
    __metadata_request__score: ClassVar[dict[str, bool | None]] = {"tasks": True, "offset": True}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._who = cls.__name__  # how errors name the learner

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> Self:
        """Return a published learner by name (see `presets`). Keyword arguments replace parameters of the preset."""
        if not cls.presets:
            remedy = f"Create the learner with its parameters: {cls._who}(...)."
            raise InputError(f"{cls._who}: there are no presets of this learner; got {shown(name)}. {remedy}")
        if name not in cls.presets:
            raise input_error(cls._who, "preset", f"one of {', '.join(cls.presets)}", shown(name))
        return cls(**{**cls.presets[name], **parameters})

    # ---- learning

    @validation.with_named_arguments
    def fit(
        self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None, offset: Any = None
    ) -> Self:
        """Forget everything, then learn the rows in order, in one pass."""
        X, tasks = self._split_task_column(X, tasks)
        examples = validation.convert(self._who, X, y, tasks, sample_weight, offset)
        # Learn into a new model, so that other threads can use the old one until the end.
        fresh = type(self)(**self.get_params(deep=False))
        if self._point is not None:
            # The operating point keeps its settings, but counts from zero.
            fresh._point = self._point.fresh()
        fresh.learn_block(fresh.check(examples, self._classes_to_fit(examples)))
        learned = {name: vars(fresh)[name] for name in _LEARNED if name in vars(fresh)}
        # Replace the old model only now that nothing was rejected: a failed `fit` must leave it as it was.
        self.__dict__.update(learned)
        for name in _LEARNED:
            if name not in learned:
                self.__dict__.pop(name, None)
        return self

    def forget_task(self, task: Hashable) -> None:
        """Remove the stored examples and the weights of one task. Other tasks keep theirs.

        Weights that all tasks share keep what they have learned from the task.

        As with `set.discard`, it is not an error if the model stores nothing of the task. So a call may be repeated.
        (A model does not remember the names of all tasks, so it often could not tell whether a task is unknown.) Only
        an explicit graph rejects tasks that are not in it.
        """
        self._check_fitted()
        task_id, _ = validation.located_one(self._who, task, self._graph, self._tasked)
        with self._guard:
            self._engine.forget(task_id)
            self._names.drop_all_but(self._engine.task_ids)

    def resize(self, budget: int | str) -> None:
        """Change the budget of a fitted model. Surplus examples are evicted by the learner's own rule.

        A learner that stores examples takes a number of examples, and only if its budget was a number of examples
        before. A `Forgetron` cannot go below the number of its stored examples. A `Budgetron` stores no examples: it
        changes the sizes of its parts, and takes a number of examples or a size in bytes. A `FourierSgd` and learners
        without a budget cannot be resized.

        >>> import numpy as np
        >>> from budgetron import BudgetProjectron
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = BudgetProjectron(budget=40).partial_fit(X, X[:, 0] * X[:, 1] > 0)
        >>> before = model.n_stored_
        >>> model.resize(25)
        >>> before, model.n_stored_, model.capacity_
        (40, 25, 25)
        """
        # Imported here because most processes never resize.
        from budgetron.learners.lifecycle.resize import name_limit, resized

        self._check_fitted()
        if "budget" not in self.get_params(deep=False):
            remedy = f"Train a learner that has one, such as Budgetron(budget={budget!r})."
            raise InputError(f"{self._who}: resize is for learners with a budget; got {shown(budget)}. {remedy}")
        with self._guard:
            self._engine = resized(self._who, self._engine, self.budget, budget)
            self.set_params(budget=budget if isinstance(budget, str) else int(budget))
            # The limit for task names is a share of a budget in bytes, so it changes too.
            self._names.limit = name_limit(self._who, budget)
            self._names.drop_all_but(self._engine.task_ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to one file, replacing an existing file; `budgetron.load` reads it.

        Before anything is written, the parameters, settings, graph, state, labels, operating point and columns are
        checked as `load` checks them. The file is replaced atomically.
        """
        from budgetron.learners.lifecycle.saved import content_of  # imported here because most processes never save
        from budgetron.persist import replace_file

        self._check_fitted()
        with self._guard:
            content = content_of(self)
        replace_file(path, content)
        logging.getLogger("budgetron.learners").info("%s saved in %s, %d bytes", self._who, path, len(content))

    # ---- predicting

    @validation.with_named_arguments
    def explain(
        self,
        x: Any,
        *,
        task: Hashable = None,
        offset: Any = None,
        label: Any = None,
        names: Mapping[int, str] | None = None,
        nearest: int = 5,
    ) -> Explanation:
        """Explain the prediction for one example: its margin as a sum of terms.

        Parameters
        ----------
        x, task, offset : as in `predict_one`
        label : optional
            The class whose margin is explained. By default the second of two classes; of three or more classes, the
            predicted one.
        names : mapping from columns to names, optional
            Names of columns that the model cannot know. The features of a dict and the columns of a data frame have
            names already.
        nearest : int, default=5
            How many of the most similar stored examples to list, for learners that store examples.

        Returns
        -------
        Explanation
            Its terms and its remainder add up to the margin.

        >>> from budgetron import Budgetron
        >>> model = Budgetron()
        >>> for _ in range(100):
        ...     _ = model.learn_one({"free": 1, "offer": 1}, "spam", task="ann", classes=["ham", "spam"])
        ...     _ = model.learn_one({"lunch": 1, "monday": 1}, "ham", task="ann", classes=["ham", "spam"])
        >>> explanation = model.explain({"free": 1, "monday": 1, "lunch": 1}, task="ann")
        >>> features = [term for term in explanation.terms if term.kind == "feature"]
        >>> explanation.label, sorted(term.name for term in features if term.total < 0)
        ('spam', ['lunch', 'monday'])
        """
        from budgetron.learners.inspection.explaining import (
            explain,  # imported here because most processes explain nothing
        )

        self._check_fitted()
        return explain(self, x, task, offset, label, names, nearest)

    def should_ask(self, x: Any, *, task: Hashable = None, offset: Any = None, share: float = 0.1) -> bool:
        """Return whether to ask for the label of this example, if you can afford only a share of all labels.

        Call it once for each example of a stream, before learning. It returns True for every example until the model
        has learned 50 examples. Later it returns True for the examples that the model is least certain about, and for
        some at random. The share of examples for which it has returned True tends to `share`. Its counts are not in
        model files: a loaded model starts to count again, and so does a model after `fit`.

        >>> import numpy as np
        >>> from budgetron import Budgetron
        >>> X = np.random.default_rng(0).normal(size=(2000, 3))
        >>> model, asked = Budgetron(), 0
        >>> for x in X:
        ...     if model.should_ask(x, share=0.05):
        ...         asked += 1
        ...         _ = model.learn_one(x, bool(x[0] > 0), classes=[False, True])
        >>> 80 <= asked <= 150
        True
        """
        from budgetron.learners.asking import Asking, checked_share, lead_of

        share = checked_share(self._who, share)
        if not self._is_fitted:
            # A model without an engine has no margins to compare.
            return True
        lead = lead_of(self._margin_of_one(x, task, offset))
        asking = self._asking  # read once: `fit` in another thread may remove it
        if asking is None:
            # `setdefault` is atomic, so threads that come here at the same moment use the same object.
            asking = self.__dict__.setdefault("_asking", Asking())
        wanted: bool = asking.wants(lead, self._engine.n_seen, share)
        return wanted

    def _part_names(self) -> Mapping[int, str]:
        """Return short names of the parts with random features, by number. Learners with such parts override it."""
        return {}

    @validation.with_named_arguments
    def score(
        self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None, offset: Any = None
    ) -> float:
        """Return the accuracy: the share of rows whose label is predicted correctly."""
        check_in_memory(self._who, "y", y)
        predicted = self.predict(X, tasks=tasks, offset=offset)
        correct = predicted == in_known_spelling(self.classes_, np.ravel(y), self._who)
        return float(np.average(correct, weights=sample_weight))

    # ---- memory

    def memory_bound(self, n_features: int, n_classes: int = 2, dtype: str = "float64") -> int | None:
        """Return an upper bound of the model's memory on dense rows, without task names; None if there is no bound.

        The bound follows from the parameters and these arguments, so it is known before the first example.
        """
        # `_settings` uses only the width and the dtype of the rows here, so their values may be 0.
        rows = np.zeros((1, n_features), dtype=dtype)
        classes = Classes(np.arange(n_classes))
        settings, _ = self._settings(rows, classes, self._checked_graph())
        if not rule_class(self.rule).is_bounded(settings):
            return None
        return bytes_of(settings, self._engine_kind(settings.kernel) is native.Engine)

    # ---- helper of `fit`

    def _classes_to_fit(self, examples: Examples) -> NDArray[Any]:
        """Return the classes that occur in the labels. Reject fewer than two classes, and weights that are all zero."""
        if examples.weights is not None and not examples.weights.any():
            raise input_error(self._who, "sample_weight", "above zero for at least one row", "only zero weights")
        assert examples.labels is not None
        classes: NDArray[Any] = np.unique(examples.labels)
        if len(classes) < 2:
            raise input_error(
                self._who,
                "y",
                "labels of at least two classes in fit",
                f"1 class, {shown(classes[0])}",
                "To begin a stream with one class use partial_fit with classes=[...].",
            )
        return classes

    # ---- saving, pickling and scikit-learn

    @classmethod
    def _check_file(cls, parameters: Mapping[str, Any]) -> None:
        """Raise an error with a remedy if this version cannot read a model file with these constructor parameters."""

    def __getstate__(self) -> dict[str, Any]:
        if not self._is_fitted:
            return dict(vars(self))
        with self._guard:
            return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
