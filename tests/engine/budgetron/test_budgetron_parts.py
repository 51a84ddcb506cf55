"""Which task rows and parts a Budgetron keeps, which relations of tasks it finds, and that it does not diverge."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron, graphs
from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.errors import UnknownTask

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]


# ---- rows of tasks


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
def test_a_task_in_no_cluster_learns_as_without_clusters(kind, is_sparse, make_settings, learn, stream):
    X, codes, tasks = stream(200, is_sparse=is_sparse)
    clustered = graphs.clusters({"ann": "a", "bob": "a"})  # no task of the stream
    settings = [make_settings(graph=graph, is_sparse=is_sparse) for graph in (graphs.complete(), clustered)]
    assert settings[1].parameters.clustered
    margins, margins_in_no_cluster = (learn(kind(each), X, codes, tasks)[0] for each in settings)
    np.testing.assert_array_equal(margins_in_no_cluster, margins)


@pytest.mark.parametrize("kind", ENGINES)
def test_rows_that_are_updated_often_are_kept(kind, make_settings, learn):
    """A task that needs a row lowers the count of the queue's first row. If the count is 0, that row is evicted."""
    engine = kind(make_settings(max_task_rows=2))
    row = np.random.default_rng(0).normal(size=(1, 4))
    for task, queue in (
        (0, {0: 1}), (1, {0: 1, 1: 1}), (0, {1: 1, 0: 2}), (2, {0: 2, 1: 0}), (2, {1: 0, 0: 1}), (2, {0: 1, 2: 1}),
        (2, {0: 1, 2: 2}), (0, {2: 2, 0: 2}),
    ):  # fmt: skip
        learn(engine, row, [task % 2], [task])
        state = engine.state()
        assert list(zip(state["row_id"].tolist(), state["row_count"].tolist(), strict=True)) == list(queue.items())
    learn(engine, row, [0], [4], np.zeros(1))  # an example of weight 0 is not learned and changes no row
    assert engine.state()["row_id"].tolist() == [2, 0] and engine.state()["row_count"].tolist() == [2, 2]


def test_most_tasks_keep_their_weights_where_there_are_slightly_more_tasks_than_rows():
    """The tasks take turns. If the least recently updated row were evicted, it would always be the row needed next."""
    rng, n_tasks = np.random.default_rng(0), 60
    X, tasks = rng.normal(size=(12_000, 5)), np.arange(12_000) % n_tasks
    y = (X * rng.normal(size=(n_tasks, 5))[tasks]).sum(axis=1) > 0
    model = Budgetron(budget=200, kernel=None, max_task_rows=50)  # a budget of examples has no short rows
    wrong = (model.predict_then_learn(X, y, tasks=tasks) > 0)[6000:] != y[6000:]
    # Fifty tasks learn their own weights. Ten tasks have only shared weights, which say nothing here.
    assert 0.05 < wrong.mean() < 0.2


@pytest.mark.parametrize("kind", ENGINES)
def test_a_forgotten_task_is_like_a_new_one(kind, make_settings, stream, learn):
    """A task that was forgotten has the margins of a new task.

    The hashed arrays are so large that no two tasks share a number. The latent part gives each new task a point that
    depends on the task's id, so this model has no latent part.
    """
    cells = dict.fromkeys(("own_cells", "fourier_cells", "bin_cells"), 10**5)
    settings = make_settings(latent=0, **cells)
    engine = kind(settings)
    X, codes, tasks = stream(80)
    learn(engine, X, codes, tasks)
    probe, ids = X[:10], np.full(10, 2)
    new = engine.margins(probe, np.full(10, 77), np.full(10, 77))
    assert not np.allclose(engine.margins(probe, ids, ids), new)
    engine.forget(2)
    assert 2 not in engine.state()["row_id"]
    np.testing.assert_array_equal(engine.margins(probe, ids, ids), new)
    engine.forget(2)  # nothing left to forget


# ---- parts without weight


@pytest.mark.parametrize("form", [{}, {"full_covariance": False}, {"graph": "edges"}, {"graph": "clusters"}])
def test_parts_without_weight_are_dropped_in_both_engines_alike(form, make_settings, stream, learn):
    X, codes, tasks = stream(60)
    settings = make_settings(**form)
    engines = []
    for kind in [native.Engine] * native.available + [reference.Engine]:
        engine = kind(settings)
        learn(engine, X, codes, tasks)
        state = engine.state()
        state["n_seen"] = mixture.DROP_AFTER + 60
        state["part_idle"] = mixture.DROP_AFTER - np.arange(len(state["part_idle"])) - 1
        state["part_idle"][-1] = 0
        weights = np.full(len(state["belief_weight"]), 1e-7)
        weights[-1] = 1 - 1e-7 * (len(weights) - 1)
        engine = kind.restore(settings, state | {"belief_weight": weights})
        remaining = []
        for at in range(3):  # the parts have been idle for different times, so one is dropped per example
            learn(engine, X[at : at + 1], codes[at : at + 1], tasks[at : at + 1])
            remaining.append(engine.state()["part_index"].tolist())
        n = len(state["part_idle"])
        assert remaining == [list(range(k, n)) for k in (1, 2, 3)]
        restored = kind.restore(settings, engine.state())
        ids, clusters = settings.graph.locate(list(tasks))
        assert restored.margins(X, ids, clusters).tobytes() == engine.margins(X, ids, clusters).tobytes()
        assert restored.memory_bytes() <= engine.memory_bytes() + 64
        engines.append(engine)
    answers = [engine.margins(X, *settings.graph.locate(list(tasks))) for engine in engines]
    np.testing.assert_allclose(answers[0], answers[-1], rtol=1e-5, atol=1e-5)


def test_the_only_part_is_never_dropped(make_settings, stream, learn):
    """The only part has all the weight, so it is not idle, even if the restored state counts it as idle.

    The core rejects such a state.
    """
    settings = make_settings(frequencies=0, latent=0, bins=0, filters=[(1.0, 0.1, 0.0)])
    X, codes, tasks = stream(60)
    engine = reference.Engine(settings)
    learn(engine, X, codes, tasks)
    state = engine.state() | {"n_seen": mixture.DROP_AFTER + 60, "part_idle": np.array([mixture.DROP_AFTER])}
    engine = reference.Engine.restore(settings, state)
    learn(engine, X[:1], codes[:1], tasks[:1])
    assert engine.query("beliefs")["weight"].tolist() == [1.0]
    assert engine.state()["part_idle"].tolist() == [0]


@pytest.mark.parametrize("kind", ENGINES)
def test_the_part_that_remains_alone_is_never_idle(kind, make_settings, stream, learn):
    settings = make_settings(frequencies=0, latent=0, bins=0, filters=[(1.0, 0.1, 0.0), (1.0, 0.1, 0.0)])
    X, codes, tasks = stream(60)
    engine = kind(settings)
    learn(engine, X, codes, tasks)
    state = engine.state() | {"n_seen": mixture.DROP_AFTER + 60, "part_idle": np.array([mixture.DROP_AFTER, 0])}
    engine = kind.restore(settings, state | {"belief_weight": np.array([1e-7, 1 - 1e-7])})
    learn(engine, X, codes, tasks)
    state = engine.state()
    assert state["part_index"].tolist() == [1] and state["part_idle"].tolist() == [0]
    assert engine.query("beliefs")["weight"].tolist() == [1.0]


@pytest.mark.parametrize("kind", [native.Engine] * native.available + [reference.Engine])
def test_a_linear_belief_that_learns_by_adagrad_is_never_dropped(kind, make_settings, stream, learn):
    settings = make_settings(latent=0, filters=[(1.0, 0.1, 0.0), (1.0, 0.1, 0.0)], filter_rates=[2.0, 0.0])
    X, codes, tasks = stream(60)
    engine = kind(settings)
    learn(engine, X, codes, tasks)
    state = engine.state()
    state["n_seen"] = mixture.DROP_AFTER + 60
    state["part_idle"] = np.full(len(state["part_idle"]), 2 * mixture.DROP_AFTER)
    state["part_idle"][-1] = 0
    weights = np.full(len(state["belief_weight"]), 1e-7)
    weights[-1] = 1 - weights[:-1].sum()
    engine = kind.restore(settings, state | {"belief_weight": weights})
    for at in range(len(state["part_idle"])):  # at most one part is dropped per example
        learn(engine, X[at : at + 1], codes[at : at + 1], tasks[at : at + 1])
    assert engine.state()["part_index"].tolist() == [0, len(state["part_idle"]) - 1]


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_both_engines_limit_the_probabilities_of_a_single_belief_with_three_classes(make_settings, learn):
    settings = make_settings(n_outputs=3, frequencies=0, latent=0, bins=0, filters=[(10.0, 0.1, 0.0)])
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=2000)
    X = 3 * np.eye(4)[codes] + 0.05 * rng.normal(size=(2000, 4))  # so easy that some probabilities are tiny
    engines = [native.Engine(settings), reference.Engine(settings)]
    for engine in engines:
        learn(engine, X, codes, np.zeros(2000, dtype=int))
    ids = np.zeros(6, dtype=int)
    core, definition = (engine.margins(3 * X[:6], ids, ids) for engine in engines)
    assert definition.min() < np.log(1e-5)
    np.testing.assert_allclose(core, definition, rtol=1e-9)


# ---- similarities of tasks


def opposed_tasks(n, seed=0):
    """Task 1 is task 0 with reversed labels; the labels of task 2 depend on another column."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 4)), rng.integers(3, size=n)
    y = np.where(tasks == 2, X[:, 3] > 0, (X[:, 0] > 0) ^ (tasks == 1))
    return X, y.astype(int), tasks


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_similarities_have_the_right_signs(engine):
    model = Budgetron(budget="200 KiB", engine=engine).fit(*opposed_tasks(900)[:2], tasks=opposed_tasks(900)[2])
    similarity = model.task_similarity([0, 1, 2])
    np.testing.assert_allclose(similarity, similarity.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(similarity), 1.0)
    assert similarity[0, 1] < -0.8 and np.abs(similarity[2, :2]).max() < 0.4


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_only_a_graph_of_listed_tasks_refuses_to_compare_tasks_that_were_never_seen(engine):
    X, y, tasks = opposed_tasks(900)

    def similarity(graph):
        model = Budgetron(budget="200 KiB", graph=graph, engine=engine).fit(X, y, tasks=tasks)
        return model.task_similarity([0, "new", "other"])

    np.testing.assert_allclose(np.diag(similarity(graphs.complete())), 1.0)
    np.testing.assert_allclose(similarity(graphs.complete(coupling=np.inf)), 1.0)  # all weights are shared
    with pytest.raises(UnknownTask):
        similarity(graphs.from_edges([(0, 1), (1, 2)]))


@pytest.mark.parametrize("kind", ENGINES)
def test_linear_weights_are_the_slopes_of_f(kind, make_settings, learn):
    """With one linear belief, linear weights are the slopes of the margin, here computed from differences of margins.

    All weight of the calibration is on its first curve, because with the second curve the margin would not be linear.
    """
    engine = kind(make_settings(frequencies=0, latent=0, bins=0, filters=[(1.0, 0.5, 0.0)]))
    X, y, tasks = opposed_tasks(200)
    learn(engine, X, y, tasks)
    state = engine.state() | {"calibration_weight": np.array([1.0, 0.0])}
    engine = kind.restore(engine.settings, state)
    sd, mean = np.sqrt(state["scaler_variance"]), state["scaler_mean"]
    for task in range(3):
        ids = np.full(1, task)
        w = np.ravel(engine.query("linear_weights", np.zeros((1, 4)), ids, ids)["weights"])
        base = engine.margins(mean[None], ids, ids)
        assert base[0] == pytest.approx(w[4], abs=1e-12)
        for j in range(4):
            moved = mean.copy()
            moved[j] += 0.25 * sd[j]
            slope = (engine.margins(moved[None], ids, ids) - base)[0] / 0.25
            assert slope == pytest.approx(w[j] / 2, rel=1e-6, abs=1e-9)  # columns are divided by √4


# ---- nothing diverges


def hard_stream(n, rng, d=4):
    """Return a stream on which models could diverge.

    The labels are inverted every 500 rows. 2 % of the rows are a thousand times as large as the others, and 1 % of the
    sample weights are 50 instead of 1.
    """
    X = rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < 0.02, 1000.0, 1.0)
    tasks = rng.integers(7, size=n)
    inverted = np.arange(n) // 500 % 2 == 1
    y = ((X[:, 0] + X[:, 1] * (tasks - 3) > 0) ^ inverted ^ (rng.random(n) < 0.1)).astype(np.int32)
    return X, y, tasks, np.where(rng.random(n) < 0.01, 50.0, 1.0)


@needs_core
@pytest.mark.parametrize(
    "steps", [100_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize("form", [{}, {"full_covariance": False}, {"n_outputs": 3}, {"is_sparse": True},
                                  {"is_sparse": True, "frequent": (0, 1, 3)}], ids=str)
def test_no_part_diverges(form, steps, make_settings, learn):
    """The state stays finite, the margins stay bounded, and full covariances stay positive definite.

    The parts include the latent part, which multiplies weights, and filters with covariances in float32.
    """
    engine = native.Engine(make_settings(**form))
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(steps // 10_000):
        X, codes, tasks, weights = hard_stream(10_000, rng)
        if form.get("n_outputs"):
            codes = (codes + (X[:, 2] > 1)).astype(np.int32)
        margins, _ = learn(engine, sparse.csr_matrix(X) if form.get("is_sparse") else X, codes, tasks, weights)
        assert np.isfinite(margins).all()
        largest = max(largest, float(np.abs(margins).max()))
    assert largest < 200
    for name, values in engine.state().items():
        assert np.isfinite(np.asarray(values, dtype=np.float64)).all(), name
        if name.endswith("_covariance") and form.get("full_covariance", True):
            assert np.linalg.eigvalsh(from_triangle(np.ravel(values)))[0] > 0, name


def from_triangle(lower):
    """Return the symmetric matrix whose lower triangle has these entries, row by row."""
    n = int(np.sqrt(2 * len(lower)))
    matrix = np.zeros((n, n))
    matrix[np.tril_indices(n)] = lower
    return np.tril(matrix) + np.tril(matrix, -1).T


@needs_core
@pytest.mark.parametrize("graph", ["edges", "complete", "disconnected", "clusters", "pooled"])
def test_margins_stay_bounded_on_every_graph(graph, make_settings, learn):
    engine = native.Engine(make_settings(graph, max_task_rows=5))
    rng = np.random.default_rng(2)
    X, codes, tasks, weights = hard_stream(20_000, rng)
    margins, _ = learn(engine, X, codes, tasks % 4, weights)
    assert np.isfinite(margins).all() and np.abs(margins).max() < 200


def test_graphs_of_every_constructor_are_learned():
    rng = np.random.default_rng(3)
    X, names = rng.normal(size=(120, 3)), ["ann", "bob", "cid", "dan"]
    tasks = [names[i] for i in rng.integers(4, size=120)]
    for graph in (
        graphs.from_edges([("ann", "bob")], tasks=names),
        graphs.from_laplacian(np.zeros((4, 4)), identity=False, tasks=names),
        graphs.from_similarity(np.eye(4) - 0.2, tasks=names), graphs.complete(n_tasks=4, coupling=0.5),
        graphs.clusters(dict.fromkeys(names, 0)), graphs.disconnected(),
    ):  # fmt: skip
        for rows in (X, sparse.csr_matrix(X)):
            model = Budgetron(graph=graph).fit(rows, X[:, 0] > 0, tasks=tasks)
            assert model.score(rows, X[:, 0] > 0, tasks=tasks) > 0.8
