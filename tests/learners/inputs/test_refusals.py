"""Every kind of bad input raises an error in three parts, and leaves the model unchanged bit for bit.

The parts are: which parameter of which learner; what it must be; and what came.
"""

from __future__ import annotations

import re

import makers
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from budgetron import Budgetron, graphs, kernels
from budgetron.checks import Case, accepts
from budgetron.checks.case import require_same, state_of
from budgetron.errors import InputError, InputTypeError, UnknownLabel, UnknownTask
from budgetron.learners.registry import learner_class, learner_names

THREE_PARTS = re.compile(r"^[\w.]+: .+ must be .+; got .+\.", re.DOTALL)
RNG = np.random.default_rng(3)
X, Y, TASKS = RNG.normal(size=(40, 3)), RNG.integers(2, size=40), RNG.integers(3, size=40).tolist()
GRAPH = graphs.from_edges([(0, 1), (1, 2)])


def rows_with(value, dtype=np.float64):
    """Four rows; one of them has an invalid value."""
    bad = X[:4].astype(dtype)
    bad[2, 1] = value
    return bad


ROWS = {
    "NaN": rows_with(np.nan),
    "inf": rows_with(-np.inf),
    "NaN in float32": rows_with(np.nan, np.float32),
    "inf in a sparse row": sparse.csr_matrix(rows_with(np.inf)),
    "a value whose square overflows": rows_with(1e200),
    "one dimension": X[0],
    "three dimensions": X[None, :4],
    "no rows": X[:0],
    "no columns": X[:4, :0],
    "too few columns": X[:4, :2],
    "too many columns": np.hstack([X[:4], X[:4]]),
    "complex": X[:4] + 0j,
    "text": np.full((4, 3), "spam"),
    "objects": np.array([[{}, 1, 2]] * 4, dtype=object),
    "None": None,
    "a number": 7.0,
    "ragged": [[1.0, 2.0, 3.0], [1.0]],
    "a frame with text": pd.DataFrame({"a": [1.0] * 4, "b": ["x"] * 4, "c": [1.0] * 4}),
    "sparse complex": sparse.csr_matrix(X[:4] + 1j),
}
LABELS = {
    "too few": Y[:3],
    "too many": Y[:5],
    "not a class": [0, 1, 2, 1],
    "text": ["a", "b", "a", "b"],
    "NaN": [0.0, 1.0, np.nan, 1.0],
    "inf": [0.0, 1.0, np.inf, 1.0],
    "fractions": [0.5, 0.25, 1.0, 0.0],
    "None": None,
    "None inside": [0, 1, None, 1],
    "two columns": np.zeros((4, 2)),
    "complex": [0j, 1j, 0j, 1j],
    "a number": 1,
    "unhashable": [[], [], [], []],
}
NAMES = {
    "too few": [0, 1, 2],
    "too many": [0, 1, 2, 0, 1],
    "unhashable": [[0], [1], [2], [0]],
    "NaN": [0, 1, np.nan, 2],
    "text": "abcd",
    "a number": 3,
    "two columns": np.zeros((4, 2), dtype=int),
    "unknown to the graph": [0, 1, 99, 2],
    "missing": None,
}
# Invalid only for a model that has learned already: a new model accepts these numbers of columns and these labels.
VALID_FIRST_ROWS = ("too few columns", "too many columns")
VALID_FIRST_LABELS = ("not a class", "text")


@pytest.fixture
def graph(learner):
    return GRAPH if accepts(Case(learner(), graph=lambda names: GRAPH)) else graphs.complete()


@pytest.fixture
def model(learner, graph):
    kernel = kernels.Gaussian(0.5) if "gaussian_only" in learner.exemptions else kernels.Linear(bias=1.0)
    return makers.made(learner, kernel=kernel, graph=graph).partial_fit(X, Y, tasks=TASKS)


def refused(call, model, *kinds):
    """Call `call`, check that it raises and leaves the model unchanged, and return the error message."""
    is_fitted = model.__sklearn_is_fitted__()
    before = state_of(model) if is_fitted else dict(vars(model))
    with pytest.raises(kinds or InputError) as caught:
        call()
    if is_fitted:
        require_same(before, state_of(model), "a refused call")
    else:
        assert vars(model) == before
    assert THREE_PARTS.match(str(caught.value)), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("bad", ROWS)
def test_invalid_rows_are_refused(learner, graph, model, bad):
    fresh = makers.made(learner, graph=graph)
    for method in ("partial_fit", "predict_then_learn"):
        assert "X" in refused(lambda m=method: getattr(model, m)(ROWS[bad], Y[:4], tasks=TASKS[:4]), model)
        if bad not in VALID_FIRST_ROWS:
            refused(lambda m=method: getattr(fresh, m)(ROWS[bad], [0, 1, 0, 1], tasks=TASKS[:4]), fresh)
    for method in ("predict", "decision_function"):
        assert "X" in refused(lambda m=method: getattr(model, m)(ROWS[bad], tasks=TASKS[:4]), model)
    if bad not in VALID_FIRST_ROWS:
        refused(lambda: model.fit(ROWS[bad], [0, 1, 0, 1], tasks=TASKS[:4]), model)
        refused(lambda: fresh.fit(ROWS[bad], [0, 1, 0, 1], tasks=TASKS[:4]), fresh)


@pytest.mark.parametrize("bad", LABELS)
def test_invalid_labels_are_refused_by_every_learner(learner, graph, model, bad):
    fresh = makers.made(learner, graph=graph)
    for method in ("partial_fit", "predict_then_learn"):
        refused(lambda m=method: getattr(model, m)(X[:4], LABELS[bad], tasks=TASKS[:4]), model)
    if bad not in VALID_FIRST_LABELS:
        refused(lambda: model.fit(X[:4], LABELS[bad], tasks=TASKS[:4]), model)
        refused(lambda: fresh.partial_fit(X[:4], LABELS[bad], tasks=TASKS[:4]), fresh)


@pytest.mark.parametrize("bad", NAMES)
def test_invalid_tasks_are_refused(learner, graph, model, bad):
    if bad in ("unknown to the graph", "missing") and graph.is_open:
        pytest.skip("an open graph accepts any task, and none")
    fresh = makers.made(learner, graph=graph)
    for method in ("partial_fit", "predict_then_learn", "fit"):
        refused(lambda m=method: getattr(model, m)(X[:4], [0, 1, 0, 1], tasks=NAMES[bad]), model)
        refused(lambda m=method: getattr(fresh, m)(X[:4], [0, 1, 0, 1], tasks=NAMES[bad]), fresh)
    for method in ("predict", "decision_function"):
        refused(lambda m=method: getattr(model, m)(X[:4], tasks=NAMES[bad]), model)


@pytest.mark.parametrize(
    "bad",
    [[1.0, np.nan, 2.0], [1.0, 2.0], [[1.0, 2.0, 3.0]], ["a", "b", "c"], {"a": 1.0}, None, 3.0, [1e200, 0.0, 0.0],
     np.array([1j, 0, 0]), sparse.csr_matrix([[1.0, 2.0]])],
    ids=str,
)  # fmt: skip
def test_an_invalid_single_row_is_refused(model, bad):
    refused(lambda: model.learn_one(bad, 1, task=0), model)
    refused(lambda: model.predict_one(bad, task=0), model)


@pytest.mark.parametrize("bad", [2, "a", None, np.nan, [1], 0.5], ids=str)
def test_an_invalid_single_label_is_refused(learner, graph, model, bad):
    refused(lambda: model.learn_one(X[0], bad, task=0), model)
    fresh = makers.made(learner, graph=graph)
    refused(lambda: fresh.learn_one(X[0], bad, task=0), fresh)


@pytest.mark.parametrize("bad", [99, "ann", [], None, float("nan")], ids=str)
def test_an_invalid_single_task_is_refused(graph, model, bad):
    if bad in (99, "ann", None) and graph.is_open:
        pytest.skip("an open graph accepts any task, and none")
    for call in (
        lambda: model.learn_one(X[0], 1, task=bad),
        lambda: model.predict_one(X[0], task=bad),
        lambda: model.forget_task(bad),
        lambda: model.task_weights(bad),
    ):
        refused(call, model)


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), float("inf"), 1j, {"b": object()}],
    ids=["object", "nan", "infinity", "complex", "nested"],
)
def test_dicts_with_invalid_values_are_refused(learner, value):
    model, bad = learner(), {"a": value}
    refused(lambda: model.learn_one(bad, 1), model)
    model.learn_one({"a": 1.0, "b": "text"}, 1)
    refused(lambda: model.learn_one(bad, 1), model)
    refused(lambda: model.predict_one(bad), model)


BAD_PARAMETERS = {
    "budget": [0, -1, 2.5, True, "12 parsecs", "0 MiB", "-1 MiB", "", "MiB", [3], "10 B", float("nan")],
    "kernel": ["rbf", 3, kernels.Linear],
    "graph": ["complete", 3, [[1.0]]],
    "eta": [-0.1, float("nan"), float("inf"), "small", None, 1.0, 5],
    "max_task_rows": [0, 1, -2, 2.5, "many", True],
    "engine": ["fortran", None, 3],
    "random_state": ["dice", -1, 1.5],
    "task_column": [7, -8, "user", 1.5, True],
}


@pytest.mark.parametrize(
    ("owner", "parameter", "bad"),
    [
        (learner, name, bad)
        for learner in map(learner_class, learner_names())
        for name in learner().get_params()
        for bad in BAD_PARAMETERS.get(name, [])
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_invalid_parameters_are_refused(owner, parameter, bad):
    model = owner(**{parameter: bad})
    message = refused(lambda: model.fit(X, Y), model)
    assert owner.__name__ in message and parameter in message
    refused(lambda: model.partial_fit(X, Y), model)
    refused(lambda: model.learn_one(X[0], 1), model)


def test_parameters_of_other_learners_are_refused(learner):
    for parameter in BAD_PARAMETERS.keys() - learner().get_params().keys():
        with pytest.raises(TypeError, match=parameter):
            learner(**{parameter: None})


def test_fit_refuses_examples_of_one_class(model):
    assert "class" in refused(lambda: model.fit(X[:4], [1, 1, 1, 1], tasks=TASKS[:4]), model)


@pytest.mark.parametrize("classes", [[1], [0, 1, 2], ["a", "b"], [0, 0], 3, []], ids=str)
def test_invalid_classes_are_refused(model, classes):
    refused(lambda: model.partial_fit(X[:4], [0, 1, 0, 1], tasks=TASKS[:4], classes=classes), model)
    refused(lambda: model.learn_one(X[0], 1, task=0, classes=classes), model)


def test_weights_are_refused_by_rules_without_a_step_size(learner, model):
    if learner.takes_weights:
        pytest.skip("this rule has a step size to scale")
    for method in ("fit", "partial_fit", "predict_then_learn"):
        message = refused(lambda m=method: getattr(model, m)(X, Y, tasks=TASKS, sample_weight=np.ones(40)), model)
        assert "sample_weight" in message


def test_each_kind_of_invalid_input_has_its_exception(graph, model):
    if not graph.is_open:
        with pytest.raises(UnknownTask):
            model.predict(X[:1], tasks=[99])
    with pytest.raises(UnknownLabel):
        model.partial_fit(X[:1], [5], tasks=[0])
    with pytest.raises(InputTypeError):
        model.partial_fit(None, [1], tasks=[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_invalid_rows_are_refused_by_a_model_without_a_kernel(is_sparse, value):
    """Without a kernel there is no store of examples, so the norms of the rows are checked separately."""
    convert = sparse.csr_matrix if is_sparse else np.asarray
    model = Budgetron(kernel=None).partial_fit(convert(X[:8]), Y[:8])
    bad = convert(rows_with(value))
    for call in (lambda: model.partial_fit(bad, Y[:4]), lambda: model.predict(bad)):
        assert "X" in refused(call, model)
    row = {"a": value} if is_sparse else rows_with(value)[2]
    refused(lambda: model.learn_one(row, 1), model)


@pytest.mark.parametrize("column", [-1, 3])
@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_column_numbers_out_of_range_are_refused(engine, column):
    """SciPy does not check column numbers, and for NumPy −1 would be the last column."""
    rows = sparse.csr_matrix(np.abs(X) + 1)
    model = Budgetron("64 KiB", engine=engine).fit(rows, Y, tasks=TASKS)
    bad = rows.copy()
    bad.indices[2 if column == 3 else 0] = column  # still ascending
    message = refused(lambda: model.partial_fit(bad, Y, tasks=TASKS), model)
    assert "column numbers from 0 to 2" in message
    dense = Budgetron("64 KiB", engine=engine).fit(X, Y, tasks=TASKS)  # a dense model converts sparse rows
    assert "column numbers" in refused(lambda: dense.predict(bad, tasks=TASKS), dense)
    bad = rows.tocsc()
    bad.indices[0] = len(X)
    assert "row numbers from 0 to" in refused(lambda: model.partial_fit(bad, Y, tasks=TASKS), model)
    with_column = Budgetron("64 KiB", engine=engine, task_column=0)
    assert "row numbers from 0 to" in refused(lambda: with_column.fit(bad, Y), with_column)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("ends", [[0, 3, 1], [0, 9, 12], [-1, 3, 6], [1, 3, 6]])
def test_row_ends_that_contradict_the_values_are_refused(engine, ends):
    """SciPy checks only the last row end, and its conversions would write out of bounds."""
    rows = sparse.csr_matrix(np.abs(X) + 1)
    model = Budgetron("64 KiB", engine=engine).fit(rows, Y, tasks=TASKS)
    bad = rows.copy()
    bad.indptr[:3] = ends
    for call in (lambda: model.partial_fit(bad, Y, tasks=TASKS), lambda: model.predict(bad, tasks=TASKS)):
        assert "indptr" in refused(call, model)


@pytest.mark.parametrize("kind", ["bsr", "coo"])
@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_contradictory_arrays_of_other_sparse_formats_are_refused(engine, kind):
    rows = sparse.csr_matrix(np.abs(X) + 1)
    model = Budgetron("64 KiB", engine=engine).fit(rows, Y, tasks=TASKS)
    bad = rows.tobsr((2, 1)) if kind == "bsr" else rows.tocoo()
    columns = bad.indices if kind == "bsr" else bad.col
    columns[2] = 3
    assert "column numbers from 0 to 2" in refused(lambda: model.partial_fit(bad, Y, tasks=TASKS), model)
    columns[2] = 2
    ends_or_rows = bad.indptr if kind == "bsr" else bad.row
    ends_or_rows[1] = 10**6  # SciPy's conversion would write out of bounds
    message = refused(lambda: model.partial_fit(bad, Y, tasks=TASKS), model)
    assert ("indptr" if kind == "bsr" else "row numbers from 0 to 39") in message


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_columns_that_were_changed_in_place_are_sorted(engine):
    """SciPy keeps the flag that the columns are sorted, even if someone changes the array."""
    rows = sparse.csr_matrix(np.abs(X) + 1)
    assert rows.has_canonical_format
    changed = rows.copy()
    assert changed.has_canonical_format
    changed.indices[:2], changed.data[:2] = changed.indices[1::-1].copy(), changed.data[1::-1].copy()
    models = [Budgetron("64 KiB", engine=engine).fit(X, Y, tasks=TASKS) for X in (rows, changed)]
    scores = [model.decision_function(rows, tasks=TASKS) for model in models]
    assert np.array_equal(*scores)
