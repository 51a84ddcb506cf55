"""Builds the `Explanation` of one prediction from the engine's answer. Called by `Learner.explain`.

What the engine answers depends on the learner:

    linear learners              one term per feature
    Budgetron                    one term per feature, and one term per part that has random features; a part is one or
                                 more of the mixed models
    learners that store examples one term per stored example; the explanation has their sums and the nearest examples
    FourierSgd                   no terms, only the margin
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.registry import rule_class
from budgetron.errors import UnknownLabel, error_message, input_error, input_type_error, is_integer, shown
from budgetron.learners.input.hashing import names_of
from budgetron.learners.inspection.explanation import Explanation, NearestExample, Term, split_term

if TYPE_CHECKING:
    from budgetron.learners.learner import Learner

SOURCES = 3  # where weights come from: all tasks, the task itself, or related tasks


def explain(model: Learner, x: Any, task: Any, offset: Any, label: Any, names: Any, nearest: Any) -> Explanation:
    """Explain one example; see `Learner.explain` for the parameters."""
    who, classes = model._who, model._classes
    if not is_integer(nearest) or nearest < 0:
        raise input_error(who, "nearest", "an integer >= 0", shown(nearest))
    if names is not None and not isinstance(names, Mapping):
        raise input_type_error(who, "names", "a mapping from columns to names, or None", shown(names))
    label_code = None if label is None else classes.find(label)
    if label is not None and label_code is None:
        accepted = f"one of the known classes {shown(classes.values.tolist())}"
        raise UnknownLabel(error_message(who, "label", accepted, shown(label)))
    rows, task_ids, clusters, offsets = model._one_example(x, task, offset)
    engine = model._engine
    with model._guard:
        answer = engine.query("explain", rows, task_ids, clusters, offsets=offsets)
        margins = answer["margins"]
        is_binary = len(margins) == 1
        code = label_code if label_code is not None else 1 if is_binary else int(margins.argmax())
        # Read task names while the lock is held: later, an eviction could drop them.
        examples = () if "columns" in answer else _nearest(model, answer, 0 if is_binary else code, int(nearest))
    # With two classes there is one margin, for the second class. The margin for the first class is its negative.
    output, sign = (0, 1.0 if code else -1.0) if is_binary else (code, 1.0)
    margin, explained_label = sign * float(margins[output]), classes.values[code].item()
    # An answer without columns comes from a learner with stored examples, or from FourierSgd, which has only random
    # features. The number of stored examples does not tell which: it is 0 after the only task has been forgotten.
    if "columns" not in answer:
        if rule_class(model.rule).stores_examples:
            kind, parts = "stored examples", [0.0, *(sign * _stored_terms(answer, output, int(task_ids[0]))).tolist()]
        else:
            kind, parts = "random features", [margin, 0.0, 0.0]
        others = [split_term(kind, parts, kind)]
        examples = tuple(NearestExample(e.arrival, e.task, e.similarity, sign * e.contribution) for e in examples)
        return Explanation(explained_label, margin, np.zeros((SOURCES, 1)), lambda _: [], others, examples)
    columns, others = _feature_terms(model, answer, output, sign, has_offsets=offsets is not None)
    return Explanation(explained_label, margin, columns, _names(model, x, rows, names), others)


def _feature_terms(
    model: Learner, answer: Mapping[str, Any], output: int, sign: float, has_offsets: bool
) -> tuple[NDArray[np.float64], list[Term]]:
    """Return the terms of the features, (SOURCES, features), with the constant last, and all other terms.

    `sign` is −1 for the first of two classes, and otherwise 1.
    """
    margins = answer["margins"]
    # Axes: source of the weights, output, feature; the last feature is the constant.
    columns = answer["columns"].reshape(SOURCES, len(margins), -1)
    fourier = answer["fourier"].reshape(-1, SOURCES, len(margins))
    others, scores = [], answer["offsets"] if has_offsets else np.zeros(0)
    if len(margins) > 1:
        # Only differences between classes matter: adding one number to all margins changes no prediction.
        columns, fourier = columns - columns.mean(axis=1, keepdims=True), fourier - fourier.mean(axis=2, keepdims=True)
        others.append(Term("normalisation", float(margins.mean()), kind="normalisation"))
        scores = scores - scores.mean() if len(scores) else scores
    if len(scores):
        others.append(Term("offset", sign * float(scores[output]), kind="offset"))
    return sign * columns[:, output], others + _random_features(model, answer, sign * fourier[:, :, output])


def _stored_terms(answer: Mapping[str, Any], output: int, task_id: int) -> NDArray[np.float64]:
    """Return the sum of the terms of the task's own stored examples, and the sum of the terms of all others."""
    terms = answer["terms"].reshape(-1, len(answer["key"]))[output] if len(answer["key"]) else np.zeros(0)
    own = answer["key"] == task_id
    return np.array([terms[own].sum(), terms[~own].sum()])


def _nearest(model: Learner, answer: Mapping[str, Any], output: int, n: int) -> tuple[NearestExample, ...]:
    """Return the n stored examples with the largest kernel values, the most similar first."""
    similarity, task_ids = answer["similarity"], answer["key"]
    if not len(similarity) or not n:
        return ()
    terms = answer["terms"].reshape(-1, len(task_ids))[output]
    if n < len(similarity):  # select before sorting: sorting all stored examples would cost more than the kernel row
        largest = np.argpartition(-similarity, n)[:n]
        # Ties in similarity are listed by arrival.
        slots = largest[np.lexsort((answer["arrival"][largest], -similarity[largest]))]
    else:
        slots = np.lexsort((answer["arrival"], -similarity))
    tasks: Sequence[Any] = model._names.of(task_ids[slots]) if model._tasked else [None] * len(slots)
    rows = zip(answer["arrival"][slots].tolist(), tasks, similarity[slots].tolist(), terms[slots].tolist(),
               strict=True)  # fmt: skip
    return tuple(NearestExample(*row) for row in rows)


def _random_features(model: Learner, answer: Mapping[str, Any], fourier: NDArray[np.float64]) -> list[Term]:
    """Return one term per part that has random features."""
    names = model._part_names()
    counts = zip(answer["part"].tolist(), answer["part_frequencies"].tolist(), fourier.tolist(), strict=True)
    kind = "random features"
    return [split_term(f"{kind} ({names[part]})", terms, kind) for part, count, terms in counts if count]


def _names(
    model: Learner, x: Any, rows: Any, chosen_names: Mapping[int, str] | None
) -> Callable[[list[int]], Sequence[str]]:
    """Return a function from positions to feature names. It is called only for terms that are read."""
    settings = model._engine.settings

    def dense(columns: list[int]) -> Sequence[str]:
        known = getattr(model, "feature_names_in_", None) if chosen_names is None else None
        if known is not None:
            return [str(known[column]) for column in columns]
        return [(chosen_names or {}).get(column, f"x{column}") for column in columns]

    def sparse(positions: list[int]) -> Sequence[str]:
        known: Mapping[int, str] = {}
        if chosen_names is not None:
            known = chosen_names
        elif isinstance(x, Mapping):
            known = names_of(x, settings.n_features)
        return [known.get(column, f"column {column}") for column in rows.indices[positions].tolist()]

    return sparse if settings.sparse else dense
