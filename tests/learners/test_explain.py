"""Explanations: the terms add up to the margin, and have the right names and signs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from budgetron import (
    BudgetProjectron,
    Budgetron,
    Forgetron,
    FourierSgd,
    LinearPerceptron,
    Perceptron,
    RelationPerceptron,
    SharedProjectron,
    graphs,
)
from budgetron.errors import InputError
from budgetron.evaluate import FeatureImportance
from budgetron.learners.input.hashing import hashed_rows

ENGINES = ["auto", "numpy"]


def stream(n=300, d=4, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, d)), rng.integers(3, size=n)
    y = (X[:, 0] + 0.5 * X[:, 1] * (tasks - 1) > 0).astype(int) if classes == 2 else rng.integers(classes, size=n)
    return X, y, tasks


def checked_explanation(model, x, task, label=None):
    """Explain x; check that the terms add up to the margin and are sorted by size; return the explanation."""
    explanation = model.explain(x, task=task, label=label)
    assert abs(explanation.total - explanation.margin) < 1e-9
    assert [abs(term.total) for term in explanation.terms] == sorted(
        [abs(term.total) for term in explanation.terms], reverse=True
    )
    assert explanation.top(3) == explanation.terms[:3]
    return explanation


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("classes", [2, 3])
def test_terms_add_up_to_the_margin(engine, classes):
    X, y, tasks = stream(120, classes=classes)
    model = Budgetron("100 KiB", engine=engine).fit(X, y, tasks=tasks)
    margins = model.decision_function(X[:5], tasks=tasks[:5])
    for x, task, margin in zip(X[:5], tasks[:5], margins, strict=True):
        for label in (None, *range(classes)):
            explanation = checked_explanation(model, x, task, label)
            if classes == 2:
                assert explanation.margin == pytest.approx(-margin if label == 0 else margin, abs=1e-12)
            else:
                assert explanation.margin == pytest.approx(margin.max() if label is None else margin[label], abs=1e-12)
            assert abs(explanation.remainder) < 1 + abs(explanation.margin)


def test_the_features_that_decide_come_first():
    X, y, tasks = stream(2000)
    model = Budgetron().fit(X, y, tasks=tasks)
    x = np.array([2.0, 0.0, 0.0, 0.0])
    features = [term for term in checked_explanation(model, x, 1).terms if term.kind == "feature"]
    assert features[0].name == "x0" and features[0].total > 0
    # In tasks 0 and 2, x1 is evidence for opposite classes. Shared weights cannot express that. Own weights and weights
    # of related tasks can.
    x[:2] = 0.01, 2.5
    of_task_0, of_task_2 = (
        next(term for term in checked_explanation(model, x, task).terms if term.name == "x1") for task in (0, 2)
    )
    assert of_task_0.own + of_task_0.related < 0 < of_task_2.own + of_task_2.related


@pytest.mark.parametrize("engine", ENGINES)
def test_names_of_hashed_features_come_from_the_example(engine):
    model = Budgetron("64 KiB", engine=engine)
    for _ in range(40):
        model.learn_one({"free": 2.0, "from": "shop"}, "spam", task="ann", classes=["ham", "spam"])
        model.learn_one({"lunch": 1, "from": "bob"}, "ham", task="ann", classes=["ham", "spam"])
    explanation = checked_explanation(model, {"free": 1.0, "lunch": 1.0, "from": "bob", "never": 1.0}, "ann")
    signs = {term.name: np.sign(term.total) for term in explanation.terms if term.kind == "feature"}
    assert signs["free"] == 1 and signs["lunch"] == signs["from=bob"] == -1
    row = hashed_rows("test", [{"free": 1.0}], model.n_features_in_)
    assert "column " in " ".join(term.name for term in checked_explanation(model, row, "ann").terms)
    with_names = model.explain(row, task="ann", names={int(row.indices[0]): "free"})
    assert "free" in {term.name for term in with_names.terms}


def test_terms_have_the_names_of_the_columns_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    X, y, tasks = stream(100)
    frame = pandas.DataFrame(X, columns=["age", "größe", "c", "d"])
    explanation = Budgetron().fit(frame, y, tasks=tasks).explain(X[0], task=1)
    assert {"age", "größe", "c", "d"} >= {term.name for term in explanation.terms if term.kind == "feature"} != set()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [BudgetProjectron, Forgetron, SharedProjectron])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_contributions_of_stored_examples_add_up_to_the_margin(engine, kind, classes, is_sparse):
    X, y, tasks = stream(80, classes=classes)
    rows = sparse.csr_matrix(X) if is_sparse else X
    model = kind(budget=20, engine=engine, graph=graphs.complete(coupling=2.0)).fit(rows, y, tasks=tasks)
    explanation = model.explain(rows[3], task=tasks[3], nearest=50)
    assert abs(explanation.total - explanation.margin) < 1e-9 and abs(explanation.remainder) < 1e-6
    assert len(explanation.nearest) == model.n_stored_ and explanation.terms[0].kind == "stored examples"
    similarities = [near.similarity for near in explanation.nearest]
    assert similarities == sorted(similarities, reverse=True)
    assert sum(near.contribution for near in explanation.nearest) == pytest.approx(explanation.margin, abs=1e-6)
    own = sum(near.contribution for near in explanation.nearest if near.task == tasks[3])
    assert explanation.terms[0].own == pytest.approx(own, abs=1e-9)
    assert len(model.explain(rows[3], task=tasks[3]).nearest) == 5
    weights = model.task_weights(tasks[3]).reshape(model.n_stored_, -1)
    slot_of = {int(arrival): slot for slot, arrival in enumerate(model.active_set_.arrival)}
    output = 0 if classes == 2 else list(model.classes_).index(explanation.label)
    for near in explanation.nearest:
        expected = weights[slot_of[near.arrival], output] * near.similarity
        assert near.contribution == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_learner_of_random_features_has_one_term():
    X, y, tasks = stream(80)
    explanation = checked_explanation(FourierSgd(budget=50).fit(X, y, tasks=tasks), X[0], 1)
    assert [term.kind for term in explanation.terms] == ["random features"] and explanation.remainder == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_learner_of_stored_examples_that_has_none_is_explained_by_stored_examples(engine):
    X, y, _ = stream(80)
    model = Perceptron(engine=engine).fit(X, y, tasks=[1] * len(X))
    model.forget_task(1)
    assert model.n_stored_ == 0
    explanation = checked_explanation(model, X[0], 1)
    assert explanation.margin == 0 and explanation.nearest == ()
    assert [(term.kind, term.total) for term in explanation.terms] == [("stored examples", 0.0)]


def test_explain_reads_the_task_from_the_task_column():
    X, y, tasks = stream(100)
    with_task_column = np.column_stack([tasks, X])
    model = Budgetron(task_column=0).fit(with_task_column, y)
    plain = Budgetron().fit(X, y, tasks=tasks.astype(float))
    expected = plain.explain(X[0], task=float(tasks[0])).margin
    assert model.explain(with_task_column[0]).margin == pytest.approx(expected, abs=1e-9)


def test_explain_changes_nothing_and_refuses_invalid_input():
    X, y, tasks = stream(100)
    model = Budgetron().fit(X, y, tasks=tasks)
    before = model.decision_function(X, tasks=tasks)
    model.explain(X[0], task=1)
    for arguments, message in (
        ({"label": 7}, "label must be one of the known classes"), ({"label": []}, "label must be"),
        ({"nearest": -1}, "nearest"), ({"nearest": 1.5}, "nearest"),
        ({"names": ["a"]}, "names"), ({"task": None}, "task"), ({"x": X[:2]}, "x"), ({"x": [np.nan] * 4}, "NaN"),
        ({"x": {"a": 1}}, "dict"),
    ):  # fmt: skip
        with pytest.raises((InputError, TypeError), match=message):
            model.explain(**({"x": X[0], "task": 1} | arguments))
    assert np.array_equal(model.decision_function(X, tasks=tasks), before)
    with pytest.raises(Exception, match="not fitted"):
        Budgetron().explain(X[0])


def test_an_explanation_converts_to_text_and_to_a_dict():
    X, y, tasks = stream(100, d=15)
    explanation = Budgetron().fit(X, y, tasks=tasks).explain(X[0], task=1)
    assert str(explanation).startswith(f"margin {explanation.margin:+.3f} for 1") and "others" in str(explanation)
    record = explanation.to_dict(4)
    assert len(record["terms"]) == 4
    total = sum(term["total"] for term in record["terms"]) + record["rest"] + record["remainder"]
    assert total == pytest.approx(record["margin"], abs=1e-9)


# ---- importance over a stream


def explanation_of(**totals):
    """Return an explanation whose terms are these features with these totals."""
    from budgetron.learners.inspection.explanation import Explanation

    values = np.array([[*totals.values(), 0.0], np.zeros(len(totals) + 1), np.zeros(len(totals) + 1)])
    names = list(totals)
    return Explanation(1, float(values.sum()), values, lambda columns: [names[column] for column in columns])


def test_importance_is_the_mean_of_absolute_terms():
    importance = FeatureImportance()
    importance.add(explanation_of(a=2.0, b=-1.0))
    importance.add(explanation_of(a=-1.0))
    first, second = importance.top()
    assert (first.name, first.mean, first.direction, first.shared) == ("a", 1.5, 0.5, 1.5)
    assert (second.name, second.mean, second.direction, second.missed) == ("b", 0.5, -0.5, 0.0)


def test_importance_keeps_the_frequent_features_of_an_endless_stream():
    importance = FeatureImportance(limit=20)
    for step in range(2000):
        importance.add(explanation_of(**{f"once {step}": 1.0}, **{"frequent" if step % 3 else "less frequent": 1.0}))
    assert len(importance._sums) <= 40
    assert {feature.name for feature in importance.top(2)} == {"frequent", "less frequent"}
    for feature in importance.top(20):
        exact = {"frequent": 1333 / 2000, "less frequent": 667 / 2000}.get(feature.name, 1 / 2000)
        assert feature.mean <= exact + 1e-12 <= feature.mean + feature.missed + 1e-9
    with pytest.raises(InputError, match="limit"):
        FeatureImportance(limit=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("make_model", [
    lambda engine: LinearPerceptron(engine=engine), lambda engine: LinearPerceptron(norm=3.0, engine=engine),
    lambda engine: RelationPerceptron("logdet", engine=engine), lambda engine: RelationPerceptron(engine=engine),
], ids=["perceptron", "p-norm", "logdet", "spectral"])  # fmt: skip
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_a_linear_learner_explains_by_its_features(make_model, engine, classes, kind):
    X, y, tasks = stream(120, classes=classes)
    model = make_model(engine).fit(kind(X), y, tasks=tasks)
    for row in range(3):
        explanation = checked_explanation(model, kind(X)[row], tasks[row])
        assert {term.kind for term in explanation.terms} <= {"feature", "normalisation"}
        assert abs(explanation.remainder) < 1e-9


def test_terms_are_a_sequence_that_is_created_when_it_is_read():
    X, y, tasks = stream(100)
    wide = np.concatenate([X] * 20, axis=1)
    explanation = Budgetron().fit(wide, y, tasks=tasks).explain(wide[0], task=1)
    terms = explanation.terms
    everything = list(terms)
    assert len(terms) == len(everything) > 40 and terms == tuple(everything)
    assert terms[0] == everything[0] and terms[-1] == everything[-1] and terms[3:9] == tuple(everything[3:9])
    assert [abs(term.total) for term in terms[:32]] == [abs(term.total) for term in everything[:32]]
    assert repr(terms) == f"<{len(terms)} terms>" and everything[5] in terms
    with pytest.raises(IndexError):
        terms[len(terms)]


def test_every_slice_of_the_terms_is_that_of_a_tuple():
    X, y, tasks = stream(100)
    model = Budgetron().fit(np.concatenate([X] * 20, axis=1), y, tasks=tasks)
    everything = tuple(model.explain(np.concatenate([X[0]] * 20), task=1).terms)
    for start, stop, step in itertools.product([None, 0, 2, 40, -3], [None, 0, 2, 31, 40, -3], [None, 1, 2, -1, -7]):
        terms = model.explain(np.concatenate([X[0]] * 20), task=1).terms  # nothing of it has been read yet
        assert terms[start:stop:step] == everything[start:stop:step], (start, stop, step)
