"""A Budgetron gives bytes and time to the parts with the most weight.

On streams that are not linear, parts get more frequencies. The bytes of dropped parts go to the heaviest part. Parts
that sleep learn from only a few examples.
"""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import Budgetron
from budgetron.engine import memory, native, reference
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.features.fourier_features import FourierFeatures, first_frequencies
from budgetron.engine.reference.rules.budgetron.parts.adagrad import FIRST_SQUARES, FourierAdaGrad
from budgetron.engine.reference.rules.budgetron.parts.filters import FOURIER_PRIOR, Filter, FilterBelief
from budgetron.engine.reference.rules.budgetron.parts.part import Seen

ENGINES = [native.Engine] * native.available + [reference.Engine]
FIRST = first_frequencies(0)
PLANNED, LIMIT = FIRST + 16, FIRST + 40
SIZES = {"frequencies": PLANNED, "filter_frequencies": PLANNED, "bank_frequencies": PLANNED,
         "max_frequencies": LIMIT, "max_filter_frequencies": LIMIT}  # fmt: skip


def circle_stream(n, seed=0):
    """Return a stream whose labels say whether a row is outside a circle. No linear classifier separates the labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, ((X[:, :2] ** 2).sum(axis=1) > 1.4).astype(np.int32), rng.integers(5, size=n)


FILTERS = {2: "filter2_frequencies", 3: "filter3_frequencies", 4: "filter4_frequencies"}
FOURIER_PARTS = FILTERS | {6: "adagrad0_frequencies", 7: "adagrad1_frequencies"}
"""Index of a part with Fourier features → the array of the state that says how many frequencies the part has."""
BEGIN = {name: first_frequencies(max(0, index - 2) if index in FILTERS else 0) for index, name in FOURIER_PARTS.items()}
"""How many frequencies each of these parts begins with."""


def frequencies_of(engine):
    """Return how many frequencies every part with Fourier features uses, and how many it may use."""
    state = engine.state()
    return {name: np.ravel(state[name]).tolist() for name in FOURIER_PARTS.values() if name in state}


def linear_stream(n, seed=0):
    X, _, tasks = circle_stream(n, seed)
    return X, (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(np.int32), tasks


@pytest.mark.parametrize("kind", ENGINES)
def test_frequencies_are_used_where_they_help(kind, make_settings, learn):
    settings = make_settings(**SIZES, max_task_rows=5)
    curved, linear = kind(settings), kind(settings)
    learn(curved, *circle_stream(1100))
    learn(linear, *linear_stream(1100))
    used = {name: frequencies for name, (frequencies, _) in frequencies_of(curved).items()}
    assert all(used[name] in (BEGIN[name], PLANNED) for name in used)
    heaviest = int(curved.query("beliefs")["weight"].argmax())
    assert used[FOURIER_PARTS[heaviest]] == PLANNED
    assert any(used[name] == BEGIN[name] for name in FILTERS.values())  # a lighter filter does not grow
    assert frequencies_of(linear) == {name: [BEGIN[name], PLANNED] for name in FOURIER_PARTS.values()}
    bound = memory.bytes_of(settings, kind is native.Engine)
    assert linear.memory_bytes() < curved.memory_bytes() <= bound


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize("form", [{}, {"graph": "disconnected"}, {"graph": "edges"}, {"n_outputs": 3}], ids=str)
def test_both_engines_add_the_same_frequencies(form, make_settings, learn):
    X, codes, tasks = circle_stream(700)
    codes = codes + (X[:, 2] > 1) * codes if "n_outputs" in form else codes
    engines = [kind(make_settings(**SIZES, **form)) for kind in ENGINES]
    margins = [learn(engine, X, codes, tasks)[0] for engine in engines]
    np.testing.assert_allclose(margins[0], margins[1], rtol=1e-5, atol=1e-5)
    assert frequencies_of(engines[0]) == frequencies_of(engines[1])
    if form.get("graph") != "disconnected":
        assert [PLANNED, PLANNED] in frequencies_of(engines[0]).values()


def test_growing_leaves_margins_as_they_are():
    """New weights are 0, and AdaGrad scales old ones. `test_both_engines_add_the_same_frequencies` tests the core."""
    rng = np.random.default_rng(3)
    kind = {"full_covariance": True, "shared": True, "own": False}
    filters = [Filter(0, FilterBelief(3.0, 0.1), 1, 5, PLANNED, LIMIT, **kind, bank=bank) for bank in (0, 1)]
    adagrad = FourierAdaGrad(0, 0.3, 0.1, 1, 5, PLANNED, LIMIT, shared=True, cells=0)
    fourier = FourierFeatures(4, 1.0, [8.0])
    fourier.resize(LIMIT)
    seen = []
    for z in rng.normal(size=(30, 4)):
        seen.append(Seen(None, 0, z, np.append(z / 2, 1.0), fourier.banks(z), np.zeros(0)))
    for part in (*filters, adagrad):
        for e in seen:
            part.learn(e, part.margins(e), int(rng.integers(2)), 1.0)
        before = [part.margins(e) for e in seen]
        part.set_frequencies(LIMIT)
        np.testing.assert_allclose([part.margins(e) for e in seen], before, rtol=1e-6, atol=1e-6)
        assert part.frequencies == LIMIT


def test_new_weights_of_adagrad_do_not_spoil_what_was_learned():
    """If the sum G of squared gradients began at 0, every new weight would take a first step of the whole rate."""
    rng = np.random.default_rng(4)
    few, many = 32, 64 * 32
    adagrad = FourierAdaGrad(0, 0.3, 0.1, 1, 3, few, many, shared=True, cells=0)
    fourier = FourierFeatures(2, 1.0, [])
    fourier.resize(many)
    stream = rng.normal(size=(1500, 2))
    seen = [Seen(None, 0, z, np.append(z / 1.5, 1.0), fourier.banks(z), np.zeros(0)) for z in stream]
    codes = (stream[:, 0] * stream[:, 1] > 0).astype(int)
    for e, code in zip(seen, codes, strict=True):
        adagrad.learn(e, adagrad.margins(e), code, 1.0)
    before = np.array([adagrad.margins(e)[0, 0] for e in seen[:200]])
    old = adagrad.squares[:, 3:].mean()
    adagrad.set_frequencies(many)
    new = adagrad.squares[:, 3 + 2 * few :]
    # With 64 times as many frequencies, features are 8 times smaller, so squares are 64 times smaller.
    np.testing.assert_allclose(new, FIRST_SQUARES * old / 64, rtol=1e-5)
    for e, code in zip(seen[200:210], codes[200:210], strict=True):
        adagrad.learn(e, adagrad.margins(e), code, 1.0)
    after = np.array([adagrad.margins(e)[0, 0] for e in seen[:200]])
    assert np.abs(after - before).mean() < 0.25 * np.abs(before).mean()


def test_a_covariance_in_float32_learns_what_one_in_float64_learns():
    """Repeated and nearly equal rows make P nearly singular, where rounding matters most."""
    rng = np.random.default_rng(5)
    kind = {"full_covariance": True, "shared": True, "own": False}
    single, double = (Filter(0, FilterBelief(3.0, 0.1), 1, 5, 24, 24, **kind) for _ in range(2))
    assert single.P.dtype == np.float32
    double.P = double.P.astype(np.float64)
    fourier = FourierFeatures(4, 1.0, [])
    fourier.resize(24)
    base = rng.normal(size=(40, 4))
    worst = 0.0
    for i in range(2000):
        z = base[rng.integers(40)] + 1e-6 * rng.normal(size=4) * (i % 2)
        e = Seen(None, 0, z, np.append(z / 2, 1.0), fourier.banks(z), np.zeros(0))
        code = int((z[0] * z[1] > 0) ^ (rng.random() < 0.1))
        margins = [part.margins(e) for part in (single, double)]
        worst = max(worst, float(np.abs(margins[0] - margins[1]).max()))
        for part, f in zip((single, double), margins, strict=True):
            part.learn(e, f, code, 1e9 if i % 500 == 0 else 1.0)
    assert worst < 1e-3
    assert np.linalg.eigvalsh(single.P.astype(np.float64)).min() > 0


def make_with_one_heavy_part(kind, settings, heavy, X, codes, tasks, learn):
    """Return an engine in which one part has all the weight, and the others are about to be dropped."""
    engine = kind(settings)
    learn(engine, X[:600], codes[:600], tasks[:600])
    state = engine.state()
    counts = np.bincount(engine.query("beliefs")["part"])
    weights = np.full(counts.sum(), 1e-7)
    at = counts[:heavy].sum()
    weights[at] = 1 - weights[at + 1 :].sum() - weights[:at].sum()
    state["n_seen"], state["belief_weight"] = mixture.DROP_AFTER + 600, weights
    state["part_idle"] = np.where(np.arange(len(counts)) == heavy, 0, mixture.DROP_AFTER)
    if heavy in FILTERS:  # a filter grows late only if the stream has determined its weights
        state[f"filter{heavy}_covariance"] = 0.1 * np.asarray(state[f"filter{heavy}_covariance"])
    return kind.restore(settings, state)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("heavy", FOURIER_PARTS)
def test_bytes_of_dropped_parts_go_to_the_heaviest(kind, heavy, make_settings, learn):
    settings = make_settings(**SIZES, max_task_rows=5)
    bound = memory.bytes_of(settings, kind is native.Engine)
    X, codes, tasks = circle_stream(620)
    engine = make_with_one_heavy_part(kind, settings, heavy, X, codes, tasks, learn)
    learn(engine, X[600:], codes[600:], tasks[600:])
    used, granted = frequencies_of(engine)[FOURIER_PARTS[heavy]]
    assert PLANNED < used == granted <= LIMIT
    assert engine.memory_bytes() <= bound
    restored = kind.restore(settings, engine.state())
    ids, clusters = settings.graph.locate(list(tasks))
    assert restored.margins(X, ids, clusters).tobytes() == engine.margins(X, ids, clusters).tobytes()


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_both_engines_reassign_bytes_alike(make_settings, learn):
    """The bytes of dropped parts become rows of tasks if the heaviest part is linear, and frequencies otherwise."""
    settings = make_settings(**SIZES, rows_may_grow=True, max_task_rows=4)
    X, codes, tasks = circle_stream(700)
    for heavy in (0, 2, 3, 6):
        engines = [make_with_one_heavy_part(kind, settings, heavy, X, codes, tasks, learn) for kind in ENGINES]
        margins = [learn(engine, X[600:], codes[600:], tasks[600:])[0] for engine in engines]
        np.testing.assert_allclose(margins[0], margins[1], rtol=1e-5, atol=1e-5)
        states = [engine.state() for engine in engines]
        for name in ("row_limit", "spare_bytes"):
            assert np.array_equal(np.ravel(states[0][name]), np.ravel(states[1][name])), name
        assert frequencies_of(engines[0]) == frequencies_of(engines[1])
        assert (np.ravel(states[0]["row_limit"])[0] > 4) == (heavy == 0)


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_block_sizes_do_not_matter_when_rows_are_added(make_settings, learn):
    """When the limit of rows rises in the middle of a block, the next examples of the block can use the new rows."""
    settings = make_settings(**SIZES, rows_may_grow=True, max_task_rows=20)
    X, codes, _ = linear_stream(3000)
    tasks = np.arange(3000)
    states = []
    for cut in (1, 37, 5000):
        engine = make_with_one_heavy_part(native.Engine, settings, 0, X, codes, tasks, learn)
        for at in range(600, 3000, cut):
            part = slice(at, at + cut)
            learn(engine, X[part], codes[part], tasks[part])
            assert engine.memory_bytes() <= memory.bytes_of(settings, True)
        states.append(engine.state())
        assert len(states[-1]["row_id"]) == np.ravel(states[-1]["row_limit"])[0] > 20
    for state in states[1:]:
        for name in ("row_id", "row_count", "row_values"):
            np.testing.assert_array_equal(state[name], states[0][name])


@pytest.mark.parametrize("kind", ENGINES)
def test_the_filter_with_the_right_bandwidth_gets_the_weight(kind):
    """The classes are the colours of a chessboard of sixteen squares. Only detailed features can separate them."""
    rng = np.random.default_rng(0)
    X = rng.random((1500, 2))
    y = np.floor(4 * X).sum(axis=1) % 2
    model = Budgetron(engine="numpy" if kind is reference.Engine else "core")
    mistakes = (model.predict_then_learn(X, y) > 0) != y
    belief, weight = max(model.beliefs_, key=lambda pair: pair[1])
    assert "detailed" in str(belief) and weight > 0.9
    assert mistakes[-500:].mean() < 0.2


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_both_engines_have_the_same_gamma_where_useful_frequencies_end_inside_a_block():
    """48 d is not a multiple of 32 for d = 3. The NumPy engine must predict as the core that learned."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    model = Budgetron(budget="1 MiB").fit(X, X.prod(axis=1) > 0)
    state = model._engine.state()
    used = max(np.ravel(values)[0] for name, values in state.items() if name.endswith("_frequencies"))
    assert used > 160  # the first multiple of 32 after 144
    ids = np.zeros(50, dtype=np.int64)
    margins = [kind.restore(model._engine.settings, state).margins(X[:50], ids, ids) for kind in ENGINES]
    np.testing.assert_allclose(margins[0], margins[1], rtol=1e-4, atol=1e-4)


def test_a_small_problem_stays_small():
    X, y, _ = linear_stream(2000)
    model = Budgetron().fit(X, y)
    assert model.memory_bytes_ < 4 * 2**20 / 20  # a twentieth of the default budget


@pytest.mark.parametrize("kind", ENGINES)
def test_a_filter_grows_late_only_if_its_weights_are_determined(kind, make_settings, learn):
    settings = make_settings(**SIZES, max_task_rows=5)
    X, codes, tasks = circle_stream(1100)
    engine = kind(settings)
    learn(engine, X[:600], codes[:600], tasks[:600])
    state = engine.state()
    used, _ = np.ravel(state["filter2_frequencies"])
    weights = np.full(len(state["belief_weight"]), 1e-7)
    weights[2] = 1 - weights[3:].sum() - weights[:2].sum()
    for share, expected in ((0.9, used), (0.5, PLANNED)):
        covariance = np.zeros_like(np.asarray(state["filter2_covariance"]))
        order = np.arange(5 + 2 * used)
        covariance[order * (order + 3) // 2] = share * FOURIER_PRIOR
        changed = {"belief_weight": weights, "n_seen": 1023, "filter2_covariance": covariance}
        restored = kind.restore(settings, state | changed)
        learn(restored, X[600:601], codes[600:601], tasks[600:601])
        assert frequencies_of(restored)["filter2_frequencies"][0] == expected


# ---- parts that sleep

SLEEPING = 6  # AdaGrad at the first rate


def with_a_sleeping_part(kind, settings, learn):
    """Return an engine whose part SLEEPING has had little weight for SLEEP_AFTER examples, and 100 further examples."""
    X, codes, tasks = circle_stream(700)
    engine = kind(settings)
    learn(engine, X[:600], codes[:600], tasks[:600])
    state = engine.state()
    assert len(state["part_idle"]) == len(state["belief_weight"])
    weights = np.full(len(state["belief_weight"]), 0.2)
    weights[SLEEPING] = 1e-4
    state["belief_weight"], state["n_seen"] = weights / weights.sum(), 8 * 500
    state["part_idle"] = np.where(np.arange(len(weights)) == SLEEPING, mixture.SLEEP_AFTER, 0)
    return kind.restore(settings, state), X[600:], codes[600:], tasks[600:]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_sleeping_part_sees_one_example_in_eight(kind, make_settings, learn):
    settings = make_settings(bins=0, max_task_rows=5)
    engine, X, codes, tasks = with_a_sleeping_part(kind, settings, learn)
    for i in range(24):
        before = engine.state()
        learn(engine, X[i : i + 1], codes[i : i + 1], tasks[i : i + 1])
        after = engine.state()
        unchanged = after["belief_weight"][SLEEPING] == before["belief_weight"][SLEEPING]
        unchanged &= np.array_equal(after["adagrad0_weights"], before["adagrad0_weights"])
        assert unchanged == (i % mixture.WAKE_EVERY != 0)
        assert np.isclose(after["belief_weight"].sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    ("idle", "weight_of_combination", "graph", "sleeps"),
    [
        (500, 0.4, "complete", True),
        (499, 0.4, "complete", False),
        (4000, 0.6, "complete", False),
        (4000, 0.4, "disconnected", False),
    ],
)
def test_every_part_sleeps_soon_while_the_combination_is_worse(
    kind, idle, weight_of_combination, graph, sleeps, make_settings, learn
):
    """A linear filter sleeps while the combination has predicted worse than the mixture, if tasks share weights."""
    engine, X, codes, tasks = with_a_sleeping_part(kind, make_settings(graph, bins=0, max_task_rows=5), learn)
    state, linear = engine.state(), 0
    weights = np.full(len(state["belief_weight"]), 0.2)
    weights[linear] = 1e-4
    changed = {
        "belief_weight": weights / weights.sum(),
        "part_idle": np.where(np.arange(len(weights)) == linear, idle, 0),
        "combination_weight": np.array([1 - weight_of_combination, weight_of_combination]),
        "n_seen": 8 * 500 + 1,
    }
    engine = kind.restore(engine.settings, state | changed)
    learn(engine, X[:1], codes[:1], tasks[:1])
    assert (engine.state()["belief_weight"][linear] == changed["belief_weight"][linear]) == sleeps


@pytest.mark.parametrize("kind", ENGINES)
def test_learning_returns_the_margin_of_a_prediction_while_a_part_sleeps(kind, make_settings, learn):
    """While a part sleeps, learning still returns the margin that a prediction just before it gives."""
    settings = make_settings(bins=0, max_task_rows=5)
    engine, X, codes, tasks = with_a_sleeping_part(kind, settings, learn)
    ids, clusters = settings.graph.locate(list(tasks))
    for i in range(10):
        row = slice(i, i + 1)
        predicted = engine.margins(X[row], ids[row], clusters[row])
        assert learn(engine, X[row], codes[row], tasks[row])[0].tobytes() == predicted.tobytes()


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize("form", [{}, {"n_outputs": 3}, {"graph": "edges"}], ids=str)
def test_parts_sleep_alike_in_both_engines(form, make_settings, learn):
    results = []
    for kind in ENGINES:
        engine, X, codes, tasks = with_a_sleeping_part(kind, make_settings(bins=0, max_task_rows=None, **form), learn)
        margins = learn(engine, X, codes, tasks)[0]
        ids, clusters = engine.settings.graph.locate(list(tasks))
        variances = engine.query("variances", X, ids, clusters)["variance"]
        results.append((margins, variances, engine.state()["belief_weight"]))
    for first, other in zip(*results, strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-5, atol=1e-5)
