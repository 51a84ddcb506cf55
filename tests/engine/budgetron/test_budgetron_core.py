"""The compiled Budgetron equals the NumPy one: margins, outcomes and the whole state.

The tests cover every part, graph and kind of rows.

Tolerances: AdaGrad and the table have float32 weights, so the relative rounding error of a weight is 6e-8. The engines
add in different orders, so a weight may be rounded differently. Margins are sums of at most a few dozen weights of
about 1, and an update does not amplify a difference. A tolerance of 1e-5 allows about 170 such rounding errors. The
forms in `FLOAT64` have only linear filters and the latent part, which are in float64, and bins, whose float32 weights
both engines round alike. Their tolerance is 1e-9.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from covers import covering
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from small_budgetrons import learn_rows, small_settings, small_stream

from budgetron.engine import native, reference

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
ROUNDED, EXACT = 1e-5, 1e-9
FORMS = {
    "dense": {}, "float32": {"dtype": "float32"}, "diagonal": {"full_covariance": False},
    "linear": {"frequencies": 0, "short_rows": 0}, "short-rows": {"frequencies": 0}, "mixed": {"mixed": True},
    "mixed-linear": {"mixed": True, "frequencies": 0, "short_rows": 0},
    "sparse": {"is_sparse": True}, "sparse-float32": {"is_sparse": True, "dtype": "float32"},
    "frequent": {"is_sparse": True, "frequent": (0, 2, 3)},
    "frequent-float32": {"is_sparse": True, "frequent": (0, 2), "dtype": "float32", "mixed": True},
}  # fmt: skip
FLOAT64 = ("linear", "mixed-linear")
# With weight 1e-3, rounding would decide whether AdaGrad learns a confidently wrong example (`adagrad.MIN_ERROR`).
WEIGHTS = [0.0, 2e-3, 1.0, 3.0, 50.0, 1.7e308]
GRAPHS = ["complete", "disconnected", "pooled", "clusters", "edges"]


def rows_of(form):
    return {name: value for name, value in FORMS[form].items() if name in ("is_sparse", "dtype")}


def assert_close(a, b, tolerance, name):
    a, b = np.asarray(a, dtype=np.float64).ravel(), np.asarray(b, dtype=np.float64).ravel()
    assert a.shape == b.shape, name
    worst = np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0)
    assert worst <= tolerance, f"{name}: {worst:.2g}"


def assert_same_state(core, definition, tolerance):
    first, other = core.state(), definition.state()
    assert first.keys() == other.keys()
    for name in first:
        if np.asarray(other[name]).dtype.kind in "iub":
            assert np.array_equal(np.ravel(first[name]), np.ravel(other[name])), name
        else:
            assert_close(first[name], other[name], tolerance, name)


@pytest.mark.parametrize(
    ("form", "graph", "n_outputs", "weighted"), list(covering(list(FORMS), GRAPHS, [1, 3], [False, True]))
)
def test_the_core_equals_the_reference_for_every_part_and_graph(
    form, graph, n_outputs, weighted, make_settings, stream, learn
):
    tolerance = EXACT if form in FLOAT64 else ROUNDED
    settings = make_settings(graph, n_outputs=n_outputs, max_task_rows=5 if graph == "edges" else 3, **FORMS[form])
    X, codes, tasks = stream(100, classes=max(2, n_outputs), **rows_of(form))
    weights = None
    if weighted:
        # A step of the largest weight leaves variances of 1e-9, which have larger relative rounding errors.
        tolerance = ROUNDED
        weights = np.random.default_rng(2).choice(WEIGHTS, p=[0.1, 0.1, 0.65, 0.05, 0.05, 0.05], size=100)
    engines = native.Engine(settings), reference.Engine(settings)
    for part in (slice(0, 1), slice(1, 60), slice(60, 100)):
        margins = [learn(engine, X[part], codes[part], tasks[part], None if weights is None else weights[part])
                 for engine in engines]  # fmt: skip
        assert_close(margins[0][0], margins[1][0], tolerance, "margins")
        assert np.array_equal(margins[0][1], margins[1][1]), "outcomes"
        assert np.isfinite(margins[0][0]).all()
    assert_same_state(*engines, tolerance)
    ids, clusters = settings.graph.locate(list(tasks))
    assert_close(*(engine.margins(X, ids, clusters) for engine in engines), tolerance, "margins at the end")
    for name, key in (("variances", "variance"), ("linear_weights", "weights")):
        answers = [engine.query(name, X[:40], ids[:40], clusters[:40])[key] for engine in engines]
        assert_close(*answers, tolerance, name)
        assert np.size(answers[0]) > 0 or name == "linear_weights"


@given(data=st.data())
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("form", FORMS)
def test_results_do_not_depend_on_how_blocks_are_cut(form, graph, data):
    """In either engine, results are equal to the last bit.

    Models of dense rows have fewer task rows than tasks, so that rows are evicted, except on `pooled` and `edges`.
    """
    n_outputs, seed = data.draw(st.sampled_from([1, 3])), data.draw(st.integers(0, 2**20))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(1, 59), max_size=5, unique=True))), 60]
    settings = small_settings(graph, n_outputs=n_outputs, max_task_rows=5 if graph == "edges" else 2, **FORMS[form])
    X, codes, tasks = small_stream(60, classes=max(2, n_outputs), seed=seed, **rows_of(form))
    for kind in (native.Engine, reference.Engine):
        whole, parts = kind(settings), kind(settings)
        expected = learn_rows(whole, X, codes, tasks)[0]
        margins = [learn_rows(parts, X[a:b], codes[a:b], tasks[a:b])[0] for a, b in itertools.pairwise(cuts)]
        assert np.concatenate(margins).tobytes() == expected.tobytes()
        for name, value in whole.state().items():
            assert np.asarray(value).tobytes() == np.asarray(parts.state()[name]).tobytes(), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [1, 2, 40])
def test_the_core_equals_the_reference_with_few_and_many_columns(form, d, make_settings, stream, learn):
    """The margins agree without task rows (`pooled`), and with 30 classes."""
    for graph, n_outputs in (("pooled", 1), ("complete", 30)):
        settings = make_settings(graph, d=d, n_outputs=n_outputs, **FORMS[form])
        X, codes, tasks = stream(40, d=d, classes=max(2, n_outputs), **rows_of(form))
        f, g = (learn(kind(settings), X, codes, tasks)[0] for kind in (native.Engine, reference.Engine))
        assert_close(f, g, ROUNDED, "margins")


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e30, 1e70])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_the_core_equals_the_reference_on_tiny_and_huge_values(is_sparse, size, make_settings, stream, learn):
    """Nothing overflows for values up to about 1e71.

    The table stores typical sizes of values in float32, so it counts values above 1e38 as 1e38.
    """
    settings = make_settings(is_sparse=is_sparse)
    X, codes, tasks = stream(60, is_sparse=is_sparse)
    X = X * size
    results = []
    for kind in (native.Engine, reference.Engine):
        engine = kind(settings)
        results.append(learn(engine, X, codes, tasks)[0])
        for name, value in engine.state().items():
            assert np.isfinite(np.asarray(value, dtype=np.float64)).all(), name
    assert np.isfinite(results).all()
    if size != 1e-320:  # the core replaces subnormal spreads of columns by 0, the definition does not
        assert_close(*results, ROUNDED, "margins")


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_rows_of_zeros_are_learned_by_the_bias(is_sparse, make_settings, learn):
    """The bias learns from a row of zeros, even from a sparse row without features."""
    settings = make_settings(is_sparse=is_sparse)
    X = sparse.csr_matrix((30, 4)) if is_sparse else np.zeros((30, 4))
    margins = [learn(kind(settings), X, np.ones(30), [0] * 30)[0] for kind in (native.Engine, reference.Engine)]
    assert_close(*margins, ROUNDED, "margins")
    assert margins[0][-1] > margins[0][0] + 0.1
