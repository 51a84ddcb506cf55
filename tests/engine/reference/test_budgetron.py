"""Budgetron's reference against the same mathematics done elsewhere: in function space, in feature space, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

from budgetron import graphs, kernels
from budgetron.engine.reference import Engine
from budgetron.engine.settings import make_settings

GAUSSIAN = kernels.Gaussian(0.3)
BELIEFS = [(1, 0.1, 0, 0, 0), (3, 0.1, 0, 0, 0.1), (3, 0.1, 3, 0.1, 0), (0, 0, 10, 0.1, 0), (0, 0, 1, 10, 0)]


def made(d, beliefs, graph="complete", own_rank=0, slots=0, patience=10_000, kernel=GAUSSIAN, sure=0.0,
         **settings):
    """An engine, its beliefs adapted to the graph as the learner does it."""
    rho = {"disconnected": 1.0, "pooled": 0.0}.get(graph)
    if rho is not None:
        beliefs = [(s_l, rho, s, rho, floor) for s_l, _, s, _, floor in beliefs]
    extra = {"beliefs": beliefs, "shared": graph != "disconnected", "own": graph != "pooled", "patience": patience,
             "own_rank": 0 if graph == "pooled" else own_rank, "slots": slots, "sure": sure}
    return Engine(make_settings(rule="budgetron", kernel=kernel, graph=graphs.complete(), n_features=d, **extra,
                           sparse=slots > 0, **{"eta": 0.1} | settings))


def beliefs_of(engine):
    answer = engine.query("beliefs")
    return list(zip(answer["index"], answer["weight"], strict=True))


def block(engine, X):
    X = np.asarray(X, dtype=engine.settings.dtype)
    return scipy.sparse.csr_matrix(X) if engine.settings.sparse else X


def fed(engine, X, codes, tasks=None, weights=None):
    keys = np.zeros(len(codes), dtype=np.int64) if tasks is None else np.asarray(tasks, dtype=np.int64)
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return engine.learn(block(engine, X), np.asarray(codes, dtype=np.int32), keys, np.zeros_like(keys), weights)


def asked(engine, X, tasks=None):
    keys = np.zeros(len(X), dtype=np.int64) if tasks is None else np.asarray(tasks, dtype=np.int64)
    return engine.margins(block(engine, X), keys, np.zeros_like(keys))


def softmax(f):
    e = np.exp(f - f.max())
    return e / e.sum()


def gain(f, code, omega, v):
    """g/(1 + hv)·ω and h/(1 + hv) of the rule, and h; None where the step is negligible."""
    if len(f) == 1:
        q = np.array([1 / (1 + math.exp(-f[0]))])
        target, q_y = np.array([float(code)]), q[0] if code else 1 - q[0]
    else:
        q, target = softmax(f), np.eye(len(f))[code]
        q_y = q[code]
    h = omega * q_y * (1 - q_y)
    if omega * abs(target - q).max() * v < 1e-3:
        return None
    return omega * (target - q) / (1 + h * v), h / (1 + h * v), h


def probability(f, code):
    return softmax(f)[code] if len(f) > 1 else 1 / (1 + math.exp(-f[0] if code else f[0]))


def mixed(w, f):
    """The margins of Σ w p."""
    if len(f[0]) == 1:
        p = sum(w_b * probability(f_b, 1) for w_b, f_b in zip(w, f, strict=True))
        return np.array([math.log(p / (1 - p))])
    return np.log(sum(w_b * softmax(f_b) for w_b, f_b in zip(w, f, strict=True)))


def reweighted(w, f, code, omega):
    w = np.array([w_b * probability(f_b, code) ** omega for w_b, f_b in zip(w, f, strict=True)])
    return (1 - 1e-4) * w / w.sum() + 1e-4 / len(w)


# The kernel part.


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_with_all_stored_it_is_the_gaussian_process_filter(stream, n_outputs):
    """One belief, pooled, ample room: mean and covariance over all points, from the prior s K."""
    n, s = 40, 0.4
    X, codes, _ = stream(n, 5, n_classes=max(n_outputs, 2))
    X = 3 * X + np.random.default_rng(1).normal(size=X.shape)
    engine = made(5, [(0, 0, s, 0, 0)], "pooled", eta=1e-4, n_outputs=n_outputs)
    margins, flags = fed(engine, X, codes, weights=1 + np.arange(n) % 3)
    assert (flags & 6 == 6).all() and engine.n_stored == n
    mean, cov = np.zeros((n_outputs, n)), s * GAUSSIAN(X, X)
    for t in range(n):
        f = mean[:, t]
        assert margins[t] == pytest.approx(f if n_outputs == 1 else np.log(softmax(f)), abs=1e-9)
        G, c, _ = gain(f, codes[t], 1 + t % 3, cov[t, t])
        mean, cov = mean + np.outer(G, cov[t]), cov - c * np.outer(cov[t], cov[t])
    assert engine.active()["coef"] @ GAUSSIAN(X, X) == pytest.approx(mean, abs=1e-8)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_every_step_in_feature_space(stream, n_outputs):
    """Linear kernel, small budget: storing, eviction and learning as projections of a mean and a covariance in ℝ^d."""
    n, d, B, eta, scales = 150, 8, 5, 0.3, (10.0, 1.0)
    X, codes, _ = stream(n, d, n_classes=max(n_outputs, 2))
    X[::9] = 0.0
    engine = made(d, [(0, 0, s, 0, 0) for s in scales], "pooled", kernel=kernels.Linear(), capacity=B, eta=eta,
                  n_outputs=n_outputs)
    W = [np.zeros((n_outputs, d)) for _ in scales]
    S = [np.zeros((d, d)) for _ in scales]
    w, stored, unit, evictions = np.array([0.5, 0.5]), [], 1.0, 0

    def left(x, others):
        """What least squares leaves of x on the others."""
        return x - X[others].T @ np.linalg.lstsq(X[others].T, x, rcond=None)[0] if others else x

    for t in range(n):
        x, code = X[t], codes[t]
        margins, flags = fed(engine, X[t:t + 1], codes[t:t + 1])
        f = [W_b @ x for W_b in W]
        expected = mixed(w, f)
        assert margins.reshape(-1) == pytest.approx(expected, abs=1e-8)
        ahead = (2 * code - 1) * expected[0] if n_outputs == 1 else expected[code] - np.delete(expected, code).max()
        mistake = bool(flags[0] & 1)
        assert abs(ahead) < 1e-9 or mistake == (ahead <= 0)
        w = reweighted(w, f, code, 1.0)
        rest = left(x, stored)
        delta2, kept = rest @ rest, False
        if x @ x > 0 and delta2 > eta**2 * (x @ x) and (mistake or (len(stored) < B and ahead < 1)):
            unit = x @ x if not stored and t == min(np.flatnonzero((X**2).sum(axis=1))) else unit
            kept, old = True, list(stored)
            S = [S_b + s / unit * np.outer(rest, rest) / delta2 for S_b, s in zip(S, scales, strict=True)]
            stored.append(t)
            if len(stored) > B:
                u = {r: left(X[r], [j for j in stored if j != r]) for r in old}
                u = {r: u_r / np.linalg.norm(u_r) for r, u_r in u.items()}
                r = min(old, key=lambda r: sum(w_b * (((W_b @ u[r]) ** 2).sum() + u[r] @ S_b @ u[r])
                                               for w_b, W_b, S_b in zip(w, W, S, strict=True)))
                keep = np.eye(d) - np.outer(u[r], u[r])
                W, S = [W_b @ keep for W_b in W], [keep @ S_b @ keep for S_b in S]
                stored = [t if j == r else j for j in old]
                evictions += 1
        assert bool(flags[0] & 4) == kept and list(engine.active()["arrival"]) == stored
        for b, s in enumerate(scales):
            v = x @ S[b] @ x + (0 if kept else s / unit * delta2)
            step = gain(W[b] @ x, code, 1.0, v)
            if step is not None:
                along = S[b] @ x
                W[b], S[b] = W[b] + np.outer(step[0], along), S[b] - step[1] * np.outer(along, along)
        total = sum(w_b * W_b for w_b, W_b in zip(w, W, strict=True))
        assert engine.active()["coef"] @ X[stored] == pytest.approx(total, abs=1e-8)
    assert evictions > 10
    assert list(engine.query("beliefs")["index"]) == [0, 1]
    assert list(engine.query("beliefs")["weight"]) == pytest.approx(w)


@pytest.mark.parametrize("graph", ["complete", "disconnected"])
def test_shared_and_own_kernel_parts_on_orthogonal_examples(graph):
    """K'(e_i, e_j) = 4 [i = j]: every covariance is diagonal, and each task and point a few numbers (unit = 4)."""
    s, rho, r, d = 2.0, 0.5 if graph == "complete" else 1.0, 3, 5
    rng = np.random.default_rng(0)
    engine = made(d, [(0, 0, s, rho, 0)], graph, own_rank=r, kernel=kernels.Linear(), capacity=d)
    shared = {j: [0.0, s] for j in range(d)}  # weight and variance of the value at e_j / 2
    own = {(i, j): [0.0, s * rho] for i in range(4) for j in range(d)}
    stored = []
    for _ in range(150):
        j, i, code, omega = rng.integers(d), rng.integers(4), int(rng.integers(2)), float(rng.integers(3))
        margins, flags = fed(engine, 2 * np.eye(d)[j:j + 1], [code], [i], [omega])
        f = shared[j][0] * (graph == "complete") + own[i, j][0]
        assert margins == pytest.approx([f], abs=1e-10)
        if omega == 0:
            assert flags[0] == ((2 * code - 1) * f <= 0)
            continue
        if j not in stored and (2 * code - 1) * f < 1 and (graph == "complete" or len(stored) < r):
            assert flags[0] & 4
            stored.append(j)
        v = shared[j][1] * (graph == "complete") + own[i, j][1]
        step = gain(np.array([f]), code, omega, v)
        assert bool(flags[0] & 2) == (step is not None)
        if step is None:
            continue
        G, c, h = step
        if j in stored:
            shared[j] = [shared[j][0] + G[0] * shared[j][1], shared[j][1] - c * shared[j][1] ** 2]
        if j in stored[:r]:
            own[i, j] = [own[i, j][0] + G[0] * own[i, j][1], own[i, j][1] / (1 + h * own[i, j][1])]
    assert len(stored) == (d if graph == "complete" else r)
    for i in range(4):
        weights = engine.task_weights(i, 0) @ (2 * np.eye(d)[stored])
        expected = np.zeros(d)
        for place, j in enumerate(stored):
            expected[j] = shared[j][0] * (graph == "complete") + own[i, j][0] * (place < r)
        assert 2 * weights[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled"])
def test_task_weights_are_the_kernel_part(stream, graph):
    X, codes, tasks = stream(90, 5, n_tasks=3)
    engine = made(5, [(0, 0, 3, 0.5, 0)], graph, own_rank=6, capacity=20)
    fed(engine, X, codes, tasks)
    K = GAUSSIAN(engine.active()["rows"], X)
    for task in range(4):
        assert engine.task_weights(task, 0)[0] @ K == pytest.approx(asked(engine, X, [task] * 90), abs=1e-10)


def test_scales_are_relative_to_the_first_example_stored(stream):
    """Under a kernel that is not normalised, ten times as large rows are the same stream."""
    X, codes, tasks = stream(80, 5, n_tasks=3)
    X[0] = 0.0  # K' = 0: never stored, and no measure for anything
    for graph in ("complete", "disconnected", "pooled"):
        small, large = (made(5, BELIEFS, graph, own_rank=3, kernel=kernels.Linear(), capacity=30) for _ in range(2))
        margins, flags = fed(small, X, codes, tasks)
        same, same_flags = fed(large, 10 * X, codes, tasks)
        assert same == pytest.approx(margins, abs=1e-7)
        assert np.array_equal(flags, same_flags) and not flags[0] & 4
        first = X[np.argmax(flags & 4 > 0)]
        assert small.state()["unit"] == pytest.approx(first @ first)
        assert large.state()["unit"] == pytest.approx(100 * first @ first)
        for key in range(3):
            small.forget(key)
        assert small.n_stored == 0 and small.state()["unit"] == pytest.approx(first @ first)


# The linear part.


@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled"])
def test_one_dense_feature_by_hand(graph):
    """Two linear beliefs on one feature and a bias, two tasks, example weights: plain arithmetic."""
    rng = np.random.default_rng(3)
    beliefs = [(2.0, 0.5, 0, 0, 0.0), (3.0, 0.25, 0, 0, 0.2)]
    engine = made(1, beliefs, graph, kernel=None)
    rho = {"disconnected": [1.0, 1.0], "pooled": [0.0, 0.0]}.get(graph, [0.5, 0.25])
    blocks = {}  # belief, task or None for shared, feature → [weight, variance, floor]
    for b, (s, _, _, _, floor) in enumerate(beliefs):
        for j in range(2):
            if graph != "disconnected":
                blocks[b, None, j] = [0.0, s, floor * s]
            for i in range(2):
                blocks[b, i, j] = [0.0, s * rho[b], floor * s * rho[b]]
    past, w = [], [0.5, 0.5]
    for t in range(120):
        x, i, code, omega = rng.normal(2, 5), int(rng.integers(2)), int(rng.random() < 0.7), [1.0, 2.0, 0.0, 0.5][t % 4]
        margins, flags = fed(engine, [[x]], [code], [i], [omega])
        deviation = np.std(past) if past else 0.0
        z = [0.0 if deviation == 0 else float(np.clip((x - np.mean(past)) / deviation, -3, 3)), 1.0]
        mine = [[(block, z[name[2]]) for name, block in blocks.items() if name[0] == b and name[1] in (None, i)]
                for b in range(2)]
        f = [np.array([sum(block[0] * phi for block, phi in held)]) for held in mine]
        assert margins == pytest.approx(mixed(w, f), abs=1e-9)
        assert bool(flags[0] & 1) == ((2 * code - 1) * margins[0] <= 0)
        if omega == 0:
            assert flags[0] in (0, 1)
            continue
        w = reweighted(w, f, code, omega)
        past.append(x)
        for f_b, held in zip(f, mine, strict=True):
            step = gain(f_b, code, omega, sum(block[1] * phi**2 for block, phi in held))
            if step is not None:
                for block, phi in held:
                    block[0] += step[0][0] * block[1] * phi
                    block[1] = max(block[1] / (1 + step[2] * block[1] * phi**2), block[2])
    assert list(engine.query("beliefs")["weight"]) == pytest.approx(w)
    assert engine.n_seen == 120 and engine.n_stored == 0
    state = engine.state()
    assert state["moments_mean"] == pytest.approx([np.mean(past)])
    assert state["moments_m2"] / state["moments_count"] == pytest.approx([np.var(past)])


@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_hashed_table_in_whole_numbers(graph, n_outputs):
    """Seven slots, so that features collide: the hash in Python's integers, one cell after the other."""
    word, m, d, s, rho, floor = 2**64 - 1, 7, 6, 4.0, {"complete": 0.25, "disconnected": 1.0}.get(graph, 0.0), 0.05
    rng = np.random.default_rng(5)
    engine = made(d, [(s, rho, 0, 0, floor)], graph, kernel=None, slots=m, n_outputs=n_outputs)

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) & word
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & word
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & word
        return x ^ (x >> 31)

    def cell(h):
        return ((h >> 32) * m) >> 32, -1.0 if h % 2 else 1.0

    typical, W, S = [0.0] * m, np.zeros((m, n_outputs)), np.full(m, s)
    for _ in range(60):
        x = np.round(rng.normal(size=d), 1) * (rng.random(d) < 0.5) * 10
        task, code = int(rng.integers(-2, 3)), int(rng.integers(max(n_outputs, 2)))
        row = scipy.sparse.csr_matrix((x, np.arange(d), [0, d]), (1, d))  # with explicit zeros
        margins, flags = engine.learn(row, np.array([code], np.int32), np.array([task]), np.array([0]))
        entries = [(mix(j), x[j]) for j in range(d) if x[j] != 0]
        scaled = []
        for h, value in entries:
            a = typical[cell(h)[0]]
            scaled.append(value / (a + (abs(value) - a) / 8 if a > 0 else abs(value)))
        norm = math.sqrt(sum(value**2 for value in scaled)) or 1.0
        phi = []
        for h, value in [*zip((h for h, _ in entries), (v / norm for v in scaled), strict=True), (mix(word), 1.0)]:
            if graph != "disconnected":
                phi.append((cell(h)[0], value * cell(h)[1]))
            if graph != "pooled":
                own = cell(mix(h ^ (task & word)))
                phi.append((own[0], value * own[1] * math.sqrt(rho)))
        f = sum(W[j] * value for j, value in phi)
        assert margins[0] == pytest.approx(f[0] if n_outputs == 1 else np.log(softmax(f)), abs=1e-10)
        step = gain(f, code, 1.0, sum(S[j] * value**2 for j, value in phi))
        assert bool(flags[0] & 2) == (step is not None)
        if step is not None:
            for j, value in phi:
                t = S[j] * value
                W[j] += step[0] * t
                S[j] = max(S[j] / (1 + step[2] * t * value), floor * s)
        for h, value in entries:
            j = cell(h)[0]
            typical[j] += (abs(value) - typical[j]) / 8 if typical[j] > 0 else abs(value)
    state = engine.state()
    assert state["table"].shape == (m, 1, n_outputs + 1)
    assert state["table"][:, 0] == pytest.approx(np.column_stack([W, S]), abs=1e-9)
    assert state["slot_scale"] == pytest.approx(typical)


# The mixture.


def test_classes_have_no_order(stream):
    X, codes, tasks = stream(80, 5, n_tasks=3, n_classes=3)
    there = np.array([2, 0, 1])
    for slots in (0, 32):
        one, other = (made(5, BELIEFS, own_rank=3, n_outputs=3, capacity=24, slots=slots) for _ in range(2))
        margins, flags = fed(one, X, codes, tasks)
        moved, moved_flags = fed(other, X, there[codes], tasks)
        assert moved[:, there] == pytest.approx(margins, abs=1e-8)
        assert np.array_equal(flags, moved_flags)
        assert np.exp(margins).sum(axis=1) == pytest.approx(1)
        assert margins[0] == pytest.approx(-np.log([3, 3, 3])) and flags[0] == 7


def test_a_belief_without_weight_is_dropped_and_the_last_never(stream):
    X, codes, tasks = stream(250, 5, n_tasks=3)
    codes = (X[:, 0] > 0).astype(np.int32)  # a linear concept, and a kernel that sees none of it
    kernel = kernels.Gaussian(1e4)
    for slots in (0, 64):
        engine = made(5, [(3, 0.1, 0, 0, 0), (0, 0, 1e-3, 0.1, 0), (1e-3, 0.1, 1e-3, 0.1, 0)], own_rank=3, capacity=24,
                      kernel=kernel, patience=20, slots=slots)
        held = [(len(engine.query("beliefs")["index"]), engine.n_stored)]
        for t in range(250):
            _, flags = fed(engine, X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])
            held.append((len(engine.query("beliefs")["index"]), engine.n_stored))
            if held[-1][0] == 1:
                assert beliefs_of(engine) == [(0, 1.0)] and engine.n_stored == 0 and not flags[0] & 4
        assert held[0][0] == 3 and held[-1][0] == 1 and max(n for _, n in held) == 24
        assert engine.active()["coef"].shape == (1, 0) == engine.task_weights(0, 0).shape
        f = asked(engine, X, tasks)
        assert asked(Engine.restore(engine.settings, engine.state()), X, tasks) == pytest.approx(f, abs=1e-12)
        assert len(engine.state()["table_key"]) == (0 if slots else 3)  # sparse: there was nothing else in them
        fed(engine, X, codes, tasks)
    only = made(5, [(0, 0, 1, 0.1, 0)], capacity=24, patience=1)
    fed(only, X, codes, tasks)
    assert beliefs_of(only) == [(0, 1.0)] and only.n_stored == 24


def test_one_belief_is_its_own_margin_however_large():
    engine = made(1, [(1e6, 0, 0, 0, 0)], "pooled", kernel=None)
    fed(engine, np.ones((50, 1)), [1] * 50, weights=[1e3] * 50)
    state = engine.state()
    assert asked(engine, [[1.0]])[0] == state["linear"][0, 0, 1]
    two = made(1, [(1e6, 0, 0, 0, 0), (1e5, 0, 0, 0, 0)], "pooled", kernel=None)
    fed(two, np.ones((4, 1)), [1, 1, 0, 0], weights=[1e6] * 4)  # p^ω of every belief is far below 1e-308
    assert np.isfinite(list(two.query("beliefs")["weight"])).all() and np.isfinite(asked(two, [[1.0]])).all()


# Rows, the store, and what is kept of them.


@pytest.mark.parametrize("slots", [0, 32])
def test_at_the_cap_the_task_updated_longest_ago_restarts(stream, slots):
    X, codes, tasks = stream(100, 5, n_tasks=6)
    engine = made(5, [(0, 0, 1, 10, 0)] if slots else BELIEFS, own_rank=4, capacity=40, max_task_rows=3, slots=slots)
    last = {}
    for t in range(100):
        if fed(engine, X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])[1][0] & 2:
            last[tasks[t]] = t
        state = engine.state()
        stamps = dict(zip(state["table_key"], state["table_stamp"], strict=True))
        assert stamps == dict(sorted(last.items(), key=lambda one: one[1])[-3:])
    for task in set(range(6)) - set(stamps):
        assert np.array_equal(asked(engine, X, [task] * 100), asked(engine, X, [99] * 100))
    for task in stamps:
        assert not np.allclose(asked(engine, X, [task] * 100), asked(engine, X, [99] * 100), atol=1e-3)


def test_forgetting_projects_what_was_shared(stream):
    X, codes, tasks = stream(60, 12, n_tasks=3)
    engine = made(12, [(0, 0, 3, 0.5, 0)], own_rank=4, kernel=kernels.Linear(), capacity=9, eta=0.2)
    fed(engine, X, codes, tasks)

    def in_space():
        state = engine.state()
        rows, M = state["rows"], np.zeros((len(state["key"]),) * 2)
        M[np.tril_indices(len(M))] = state["m"][0]
        M = M + np.tril(M, -1).T
        return state, state["u"][0] @ rows, rows.T @ M @ rows

    before, w, cov = in_space()
    gone = int(before["key"][before["anchors"][0]])
    slots = [(key, arrival) for key, arrival in zip(before["key"], before["arrival"], strict=True)]
    while gone in [key for key, _ in slots]:
        r = [key for key, _ in slots].index(gone)
        slots[r] = slots[-1]
        slots.pop()
    engine.forget(gone)
    after, w_after, cov_after = in_space()
    assert list(after["arrival"]) == [arrival for _, arrival in slots] and 0 < len(slots) < 9
    onto = after["rows"].T @ np.linalg.pinv(after["rows"].T)
    assert w_after == pytest.approx(w @ onto.T, abs=1e-9)
    assert cov_after == pytest.approx(onto @ cov @ onto.T, abs=1e-9)
    assert sorted(after["arrival"])[:4] == list(after["arrival"][after["anchors"]])
    assert sorted(after["table_key"]) == sorted(set(before["table_key"]) - {gone})
    assert (after["own_kernel"][:, :, 0] == 0).all() and (after["own_kernel"][:, :, 1] == 1).all()
    engine.forget(99)
    assert all(np.array_equal(after[name], value) for name, value in engine.state().items())
    fed(engine, X, codes, tasks)  # and it goes on


def test_forgetting_a_task_without_anchors_leaves_the_own_parts_alone(stream):
    X, codes, _ = stream(80, 5)
    tasks = np.where(np.arange(80) < 20, 0, 1 + np.arange(80) % 2)
    engine = made(5, [(0, 0, 3, 0.5, 0)], own_rank=2, capacity=30, eta=0.2)
    fed(engine, X, codes, tasks)
    before = engine.state()
    assert set(before["key"]) == {0, 1, 2} and list(before["key"][before["anchors"]]) == [0, 0]
    engine.forget(2)
    after = engine.state()
    others = before["table_key"] != 2
    assert np.array_equal(after["table_key"], before["table_key"][others])
    assert np.array_equal(after["own_kernel"], before["own_kernel"][others])
    assert np.array_equal(after["arrival"][after["anchors"]], before["arrival"][before["anchors"]])
    fresh = asked(engine, X, [99] * 80)
    assert np.array_equal(asked(engine, X, [2] * 80), fresh)
    assert not np.allclose(asked(engine, X, [1] * 80), fresh, atol=1e-3)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("slots", [0, 40])
@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled"])
def test_a_restored_engine_goes_on_as_if_it_had_not_stopped(stream, graph, slots, n_outputs):
    X, codes, tasks = stream(80, 5, n_tasks=5, n_classes=max(n_outputs, 2))
    whole, parts = (made(5, BELIEFS, graph, own_rank=4, capacity=12, slots=slots, n_outputs=n_outputs, max_task_rows=4,
                         dtype="float64" if n_outputs == 1 else "float32", kernel=kernels.Polynomial(2, 1.0))
                    for _ in range(2))
    margins, flags = fed(whole, X, codes, tasks)
    for start, end in ((0, 0), (0, 1), (1, 50)):
        fed(parts, X[start:end], codes[start:end], tasks[start:end])
        state = parts.state()
        frozen = {name: np.copy(value) for name, value in state.items()}
        parts = Engine.restore(parts.settings, state)
    rest, rest_flags = fed(parts, X[50:], codes[50:], tasks[50:])
    assert rest == pytest.approx(margins[50:], abs=1e-12) and np.array_equal(rest_flags, flags[50:])
    assert all(np.array_equal(state[name], frozen[name]) for name in frozen)  # the state was not written to
    assert whole.state().keys() == parts.state().keys()
    assert whole.memory_bytes() == parts.memory_bytes()


def test_the_pool_is_never_exceeded_and_anchors_stay(stream):
    X, codes, tasks = stream(150, 8, n_tasks=3)
    engine = made(8, [(0, 0, 3, 0.5, 0), (0, 0, 1, 10, 0)], own_rank=2, slots=16, capacity=9, pool=30)
    first, fewer = [], 0
    for t in range(150):
        _, flags = fed(engine, X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])
        held = engine.active()
        assert len(held["key"]) <= 9 and held["rows"].nnz <= 30
        assert not flags[0] & 4 or t in held["arrival"]
        first = first if len(first) == 2 else list(held["arrival"][:2])
        assert set(first) <= set(held["arrival"])
        fewer += t > 50 and len(held["key"]) < 9
        state, rows = engine.state(), held["rows"].toarray()
        assert list(state["arrival"][state["anchors"]]) == first[:2]
        gram = engine.rule.kernel.span.gram.H
        assert gram == pytest.approx(GAUSSIAN(rows, rows))
    assert fewer


def test_without_weight_nothing_is_learned(stream):
    X, codes, tasks = stream(100, 5, n_tasks=3)
    engine = made(5, BELIEFS, own_rank=2, capacity=16)
    fed(engine, X, codes, tasks)
    before = engine.state()
    margins, flags = fed(engine, X, codes, tasks, np.zeros(100))
    assert np.array_equal(margins, asked(engine, X, tasks)) and set(flags) == {0, 1}
    after = engine.state()
    assert after.pop("n_seen") == 200 and after.pop("n_mistakes") == before["n_mistakes"] + flags.sum()
    assert all(np.array_equal(before[name], after[name]) for name in after)


@pytest.mark.parametrize("sure", [0.0, 0.05])
@pytest.mark.parametrize(("n_outputs", "omega"), [(1, 1.0), (3, 1.0), (1, 4.0)])
def test_what_a_kernel_belief_is_sure_of_teaches_it_nothing(sure, n_outputs, omega):
    """One point again and again: its probability by the rule of the filter, until that is within `sure` / ω of 1."""
    engine = made(2, [(0, 0, 4000.0, 0, 0)], "pooled", n_outputs=n_outputs, sure=sure)
    f, V = np.zeros(n_outputs), 4000.0
    times_sure = 0
    for _ in range(200):
        (margin,), (flag,) = fed(engine, [[1.0, 0.5]], [1], weights=[omega])
        assert margin == pytest.approx(f if n_outputs == 1 else np.log(softmax(f)), abs=1e-9)
        step = gain(f, 1, omega, V)
        is_sure = omega * (1 - probability(f, 1)) < sure
        assert bool(flag & 2) == (step is not None and not is_sure)
        times_sure += is_sure
        if flag & 2:
            f, V = f + step[0] * V, V - step[1] * V**2
    assert (times_sure > 20) == (sure > 0)
