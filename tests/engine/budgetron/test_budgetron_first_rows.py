"""A model on sparse rows keeps its first rows. Then it begins again: it plans its memory and learns them again.

The second beginning has the same result as learning these rows in a new model with the same plan.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import budgetron
from budgetron import Budgetron
from budgetron.engine import native, reference
from budgetron.engine.first_rows import MAX_ENTRIES, MAX_ROWS, Block, FirstRows
from budgetron.engine.records import SparseRow
from budgetron.engine.reference.rules.budgetron.sizes.frequent_columns import MAX_COLUMNS, frequent_columns

KINDS = ["core"] * native.available + ["numpy"]


def numbers(n, seed=0):
    """Return CSR rows of six numbers on different scales, about a fifth of them 0, and labels.

    A label says whether the row before scaling is outside of a ball. Two more columns have one non-zero each, in rows
    12 and 25, so that all `MAX_ROWS` rows are kept.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.8)
    rare = np.arange(n)[:, None] == [12, 25]
    return sparse.csr_matrix(np.hstack([X * [1, 10, 0.1, 1, 100, 1], rare])), (X**2).sum(axis=1) > 4.5


def words(n, length, d=5000, seed=0, values="presence"):
    """Rows of words, whose frequencies follow Zipf's law. Values are presence, counts, or weights such as tf-idf."""
    rng = np.random.default_rng(seed)
    frequencies = 1 / (np.arange(d) + 2.7)
    drawn = rng.choice(d, p=frequencies / frequencies.sum(), size=(n, length))
    X = np.zeros((n, d))
    for row, words_of_row in zip(X, drawn, strict=True):
        np.add.at(row, words_of_row, 1.0)
    if values == "presence":
        X = (X > 0).astype(float)
    if values == "weights":
        X = X / np.sqrt((X**2).sum(axis=1, keepdims=True)) * np.log(1 + np.arange(1, d + 1))
    return sparse.csr_matrix(X)


def block_of(X):
    n = X.shape[0]
    ids = np.zeros(n, dtype=np.int64)
    return Block(SparseRow(X.indptr.astype(np.int64), X.indices, X.data), np.zeros(n, np.int32), ids, ids, None, None)


def first_rows_of(X):
    """Return the rows that an engine keeps as first rows of the stream X."""
    block = block_of(sparse.csr_matrix(X))
    none = FirstRows.none(Budgetron()._settings(X, _two_classes(), Budgetron().graph)[0])
    return none.plus(block.part(0, none.room(block)))


def _two_classes():
    from budgetron.learners.input.classes import Classes

    return Classes(np.arange(2))


# ---- which columns are frequent


def test_all_columns_of_a_table_of_numbers_are_frequent():
    X, _ = numbers(100)
    assert frequent_columns(first_rows_of(X)) == list(range(8))


def test_the_number_of_frequent_columns_is_limited():
    wide = sparse.csr_matrix(np.random.default_rng(0).normal(size=(100, 200)))
    assert len(frequent_columns(first_rows_of(wide))) == MAX_COLUMNS


@pytest.mark.parametrize("values", ["presence", "counts", "weights"])
@pytest.mark.parametrize("length", [4, 15, 40, 400])
def test_text_has_no_frequent_columns(values, length):
    for seed in range(5):
        assert frequent_columns(first_rows_of(words(100, length, seed=seed, values=values))) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normalised_rows_of_words_contain_no_numbers(dtype):
    """If all rows have the same norm, although their values differ in size, the values count as weights of words.

    Without normalisation they count as numbers. Rows of signs also have equal norms, but all their values have the same
    size, so they are not weights of words.
    """
    X = words(100, 20, d=40, values="counts")
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    normalised = sparse.csr_matrix(sparse.diags(1 / norms) @ X, dtype=dtype)
    assert frequent_columns(first_rows_of(normalised)) == [] and frequent_columns(first_rows_of(X))
    signs = sparse.csr_matrix(np.sign(np.random.default_rng(0).normal(size=(100, 30))))
    assert frequent_columns(first_rows_of(signs)) == list(range(30))


@pytest.mark.parametrize("per_row", [1, 5])
def test_many_categories_have_no_frequent_columns(per_row):
    """Each row has one of 30 categories in each of `per_row` columns of a table."""
    codes = np.random.default_rng(0).integers(30, size=(100, per_row)) + 30 * np.arange(per_row)
    X = sparse.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, per_row)), shape=(100, 150))
    assert frequent_columns(first_rows_of(X)) == []


def test_all_columns_of_a_small_table_of_bits_are_frequent():
    X = sparse.csr_matrix(np.random.default_rng(0).random((100, 9)) < 0.5, dtype=np.float64)
    assert frequent_columns(first_rows_of(X)) == list(range(9))


def test_numbers_beside_a_text_are_frequent():
    X = sparse.hstack([words(100, 15), np.random.default_rng(0).normal(size=(100, 3))], format="csr")
    assert set(frequent_columns(first_rows_of(X))) >= {5000, 5001, 5002}


def test_few_rows_have_no_frequent_columns():
    assert frequent_columns(first_rows_of(numbers(7)[0])) == []


def test_a_limited_number_of_rows_and_entries_is_kept():
    assert len(first_rows_of(words(100, 20))) == MAX_ROWS
    assert len(first_rows_of(words(100, 400))) < MAX_ROWS
    assert first_rows_of(words(100, 400)).indptr[-1] <= MAX_ENTRIES
    assert len(first_rows_of(sparse.csr_matrix(np.ones((3, MAX_ENTRIES + 1))))) == 0


@pytest.mark.parametrize(
    ("new", "kept"), [([], 16), ([7], 16), ([16], 16), ([8], 32), ([15], 32), ([8, 16], 64), ([15, 31], 64)]
)
def test_fewer_rows_are_kept_if_they_show_no_new_column(new, kept):
    """Each of the rows `new` has an entry in a column that is empty in all earlier rows."""
    X = np.ones((100, 3 + len(new)))
    X[:, 3:] = np.arange(100)[:, None] == new
    assert len(first_rows_of(sparse.csr_matrix(X))) == kept


# ---- the second beginning


@pytest.mark.parametrize("engine", KINDS)
def test_numbers_in_dicts_are_learned_nearly_as_well_as_dense_rows(engine):
    n = 1500 if engine == "core" else 700
    X, y = numbers(n)
    dense, dicts = Budgetron("200 KiB", engine=engine), Budgetron("200 KiB", engine=engine)
    f = dense.predict_then_learn(X.toarray(), y)
    rows = [{f"column {j}": x for j, x in enumerate(row)} for row in X.toarray().tolist()]
    g = np.array([dicts.learn_one(row, bool(label), classes=[False, True]) for row, label in zip(rows, y, strict=True)])
    late = slice(n // 2, None)
    errors = [np.mean((margins[late] > 0) != y[late]) for margins in (f, g)]
    # The boundary is an ellipsoid around the mean. Neither a linear model nor the hashed table alone does much better
    # than always predicting the more frequent class.
    guess = min(np.mean(y[late]), 1 - np.mean(y[late]))
    assert errors[1] <= errors[0] + 0.05 and errors[1] < 0.7 * guess
    assert dicts.memory_bytes_ <= 200 * 1024


@settings(max_examples=8)
@given(data=st.data())
@pytest.mark.parametrize("engine", KINDS)
def test_results_do_not_depend_on_how_the_beginning_is_cut(engine, data):
    n = 90
    cuts = [0, *sorted(data.draw(st.lists(st.integers(1, n - 1), max_size=6, unique=True))), n]
    saved_at = data.draw(st.integers(1, n - 1))
    (X, y), tasks = numbers(n), np.arange(n) % 4
    whole, cut = (Budgetron("100 KiB", engine=engine) for _ in range(2))
    expected = whole.predict_then_learn(X, y, tasks=tasks, classes=[False, True])
    margins = []
    for a, b in itertools.pairwise(cuts):
        margins.append(cut.predict_then_learn(X[a:b], y[a:b], tasks=tasks[a:b], classes=[False, True]))
        if b >= saved_at:
            saved_at = n
            cut.__setstate__(_reloaded(cut).__getstate__())
    assert np.concatenate(margins).tobytes() == expected.tobytes()
    a, b = whole._engine.state(), cut._engine.state()
    assert all(np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes() for name in a)
    assert whole.n_seen_ == n and whole.n_mistakes_ == int(((2 * y - 1) * expected <= 0).sum())


def _reloaded(model):
    import pickle

    return pickle.loads(pickle.dumps(model))


def test_a_model_saved_during_its_beginning_continues_exactly(tmp_path):
    X, y = numbers(200)
    model, other = Budgetron("100 KiB"), Budgetron("100 KiB")
    for part in (slice(0, 30), slice(30, 64)):
        model.partial_fit(X[part], y[part], classes=[False, True])
        other.partial_fit(X[part], y[part], classes=[False, True])
        other.save(tmp_path / "model")
        other = budgetron.load(tmp_path / "model")
        assert other._engine.first_rows is not None
    assert np.array_equal(model.predict_then_learn(X[64:], y[64:]), other.predict_then_learn(X[64:], y[64:]))
    assert other._engine.first_rows is None and other._engine.settings.parameters.frequent_columns


@pytest.mark.parametrize("engine", KINDS)
def test_the_first_rows_count_as_memory_and_are_within_the_budget(engine):
    X = sparse.hstack([words(70, 28), np.random.default_rng(0).normal(size=(70, 2))], format="csr")
    model, sizes = Budgetron("64 KiB", engine=engine), []
    for i in range(70):
        model.partial_fit(X[i], [i % 2], classes=[0, 1])
        sizes.append(model.memory_bytes_)
        kept = model._engine.first_rows
        assert kept is None or model.memory_bytes_ >= kept.nbytes
    assert max(sizes) <= 64 * 1024 and model._engine.first_rows is None
    assert sizes[10] < sizes[60]


@pytest.mark.parametrize("engine", KINDS)
def test_a_budget_that_the_machine_does_not_have_is_named_and_changes_nothing(engine, monkeypatch):
    """A model allocates most of its budget only after the first rows."""
    X, y = numbers(120)
    model = Budgetron("100 KiB", engine=engine).partial_fit(X[:50], y[:50])
    state, kind = model._engine.state(), type(model._engine)
    begin = kind.__init__

    def without_memory(self, settings):
        if not settings.parameters.first_rows:
            raise MemoryError
        begin(self, settings)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "__init__", without_memory)
        with pytest.raises(MemoryError, match="Budgetron: budget must be small enough for this machine's memory"):
            model.partial_fit(X[50:], y[50:])
    for name, values in model._engine.state().items():
        np.testing.assert_array_equal(values, state[name], err_msg=name)
    model.partial_fit(X[50:], y[50:])
    assert model.n_seen_ == 120


@pytest.mark.parametrize("engine", KINDS)
def test_a_forgotten_task_is_not_learned_again(engine):
    (X, y), tasks = numbers(120), np.arange(120) % 3
    model = Budgetron("100 KiB", engine=engine)
    model.partial_fit(X[:50], y[:50], tasks=tasks[:50], classes=[False, True])
    model.forget_task(1)
    assert sorted(set(model._engine.first_rows.task_ids.tolist())) == [0, 2]
    kept = np.flatnonzero(tasks[:50] != 1)
    block = model._engine.first_rows.block()
    rows = sparse.csr_matrix((block.rows.data, block.rows.indices, block.rows.indptr), shape=(len(kept), 8))
    assert (rows != X[kept]).nnz == 0 and np.array_equal(block.codes, y[kept])
    model.partial_fit(X[50:], y[50:], tasks=tasks[50:])
    assert model.n_seen_ == 120 and model._engine.first_rows is None


@pytest.mark.parametrize("engine", KINDS)
def test_the_first_rows_are_learned_again_with_their_weights_and_offsets(engine):
    """After the second beginning, the model equals a new one with the same plan that has learned the first rows."""
    X, y = numbers(66)
    weights, offsets = np.tile([0.0, 1.0, 0.3], 22), np.linspace(-3, 3, 66)
    model = Budgetron("100 KiB", engine=engine)
    margins = model.predict_then_learn(X, y, classes=[False, True], sample_weight=weights, offset=offsets)
    ids, offset_of_probe = np.zeros(64, dtype=np.int64), offsets[64:65]

    def margin_after(weights, offsets):
        new = type(model._engine)(model._engine.settings)
        new.learn(X[:64], y[:64].astype(np.int32), ids, ids, weights, offsets)
        return new.margins(X[64], ids[:1], ids[:1], offsets=offset_of_probe)[0]

    assert margins[64] == margin_after(weights[:64], offsets[:64])
    assert margins[64] not in (margin_after(None, offsets[:64]), margin_after(weights[:64], np.zeros(64)))


@pytest.mark.parametrize("engine", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("cuts", [[0, 64, 90], [0, 20, 64, 90]])
def test_offsets_are_accepted_when_the_first_rows_end(engine, n_classes, cuts):
    X, y = numbers(90)[0], np.arange(90) % n_classes
    offsets = np.linspace(-1, 1, 90) if n_classes == 2 else np.linspace(-1, 1, 270).reshape(90, 3)
    whole, cut = (Budgetron("100 KiB", engine=engine) for _ in range(2))
    expected = whole.predict_then_learn(X, y, offset=offsets)
    margins = [
        cut.predict_then_learn(X[a:b], y[a:b], classes=range(n_classes), offset=offsets[a:b])
        for a, b in itertools.pairwise(cuts)
    ]
    assert np.concatenate(margins).tobytes() == expected.tobytes()
    long = sparse.csr_matrix(np.ones((2, MAX_ENTRIES + 1)))
    assert Budgetron("1 MiB", engine=engine).partial_fit(long, [0, 1], offset=np.zeros(2)).n_seen_ == 2


@pytest.mark.parametrize("engine", KINDS)
def test_the_first_rows_do_not_change_with_the_arrays_of_the_caller(engine):
    X, y = numbers(100)
    arrays = {"tasks": np.arange(100) % 3, "sample_weight": np.ones(100), "offset": np.zeros(100)}
    models = [Budgetron("100 KiB", engine=engine) for _ in range(2)]
    for model, is_changed in zip(models, (False, True), strict=True):
        first, labels = X[:10].copy(), y[:10].copy()
        others = {name: values[:10].copy() for name, values in arrays.items()}
        model.partial_fit(first, labels, classes=[False, True], **others)
        for values in (first.data, labels, *others.values()) if is_changed else ():
            values[:] = 1 - values
        model.partial_fit(X[10:], y[10:], **{name: values[10:] for name, values in arrays.items()})
    expected, margins = (model.decision_function(X, tasks=arrays["tasks"], offset=arrays["offset"]) for model in models)
    assert margins.tobytes() == expected.tobytes()


@pytest.mark.parametrize("engine", KINDS)
def test_a_failed_beginning_leaves_the_model_as_it_was(engine, monkeypatch):
    X, y = numbers(100)
    model = Budgetron("100 KiB", engine=engine).partial_fit(X[:60], y[:60], classes=[False, True])
    before = model._engine.state()

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("budgetron.engine.reference.rules.budgetron.sizes.plan.begun_again", fail)
        with pytest.raises(MemoryError):
            model.partial_fit(X[60:], y[60:])
    after = model._engine.state()
    assert all(np.asarray(before[name]).tobytes() == np.asarray(after[name]).tobytes() for name in before)
    model.partial_fit(X[60:], y[60:])
    assert model.n_seen_ == 100


@pytest.mark.parametrize("budget", ["64 KiB", "1 MiB", 100])
def test_a_model_can_be_resized_in_its_beginning_and_after_it(budget):
    (X, y), tasks = numbers(400), np.arange(400) % 4
    model = Budgetron(budget).partial_fit(X[:50], y[:50], tasks=tasks[:50], classes=[False, True])
    larger = 300 if isinstance(budget, int) else "300 KiB"
    model.resize(larger)
    model.partial_fit(X[50:200], y[50:200], tasks=tasks[50:200])
    assert model._engine.settings.parameters.frequent_columns == list(range(8))
    before = model.decision_function(X[200:], tasks=tasks[200:])
    model.resize(200 if isinstance(budget, int) else "200 KiB")
    after = model.decision_function(X[200:], tasks=tasks[200:])
    assert np.mean((before > 0) == (after > 0)) > 0.8
    model.partial_fit(X[200:], y[200:], tasks=tasks[200:])
    if isinstance(budget, str):
        assert model.memory_bytes_ <= 200 * 1024


@pytest.mark.parametrize("parameters", [{"budget": "20 KiB"}, {"kernel": None}], ids=str)
def test_tiny_budgets_and_linear_models_have_a_table_only(parameters):
    model = Budgetron(**parameters).partial_fit(*numbers(100))
    assert model._engine.first_rows is None and not model._engine.settings.parameters.frequent_columns


def test_the_numpy_engine_equals_the_core_after_the_second_beginning():
    """The two engines plan different sizes, so the core continues from the state of the NumPy engine."""
    if not native.available:
        pytest.skip("built without a compiler")
    (X, y), tasks = numbers(150), np.arange(150) % 4
    model = Budgetron("100 KiB", engine="numpy").partial_fit(X[:100], y[:100], tasks=tasks[:100])
    engine = model._engine
    core = native.Engine.restore(engine.settings, engine.state())
    ids, clusters = engine.settings.graph.locate(list(tasks[100:]))
    codes = y[100:].astype(np.int32)
    expected = reference.Engine.restore(engine.settings, engine.state()).learn(X[100:], codes, ids, clusters)[0]
    assert np.allclose(core.learn(X[100:], codes, ids, clusters)[0], expected, rtol=1e-4, atol=1e-4)
