"""Learners from papers on related methods agree with their test vectors.

They are the Perceptrons of CCG10 and SRDV11 (see `rules/relation_perceptron.py`), the Shifting Perceptron and the
fixed-shrink Forgetron. The vectors of the last two are for one task and a Gaussian kernel (`conftest.Run`). All others
are for three tasks, t mod 3, the linear kernel and the complete graph; their probe is of task 1.
"""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.reference.rules.relation_perceptron import BATCH, COVARIANCE, LOGDET, SPECTRAL, VON_NEUMANN
from budgetron.engine.reference.rules.shifting_perceptron import FIXED, POLYNOMIAL
from budgetron.engine.settings import make_settings

COMPLETE = graphs.complete(n_tasks=3)
T = np.arange(1, 61)
X = np.column_stack([np.cos(T), np.sin(2 * T)])
CODES = (np.sin(3 * T) + 0.3 * np.cos(7 * T) > 0).astype(np.int32)
TASKS = T % 3


@pytest.fixture(params=["numpy", "core"])
def kind(request):
    if request.param == "core" and not native.available:
        pytest.skip("built without a compiler")
    return native.Engine if request.param == "core" else reference.Engine


def run_stream(kind, rule, kernel=None, graph=COMPLETE, **parameters):
    engine = kind(make_settings(rule=rule, kernel=kernel, graph=graph, n_features=2, **parameters))
    engine.learn(X, CODES, *graph.locate(TASKS))
    return engine


def probe(engine, task=1):
    margins = engine.margins(np.array([[0.3, -0.2]]), *engine.settings.graph.locate([task]))
    return round(float(margins[0]), 5)


@pytest.mark.parametrize("parameters, mistakes, stored, value", [
    ({"shrink": POLYNOMIAL, "amount": 0.5, "capacity": None}, 34, 34, -0.78781),
    ({"shrink": FIXED, "capacity": 8}, 40, 8, -0.57409),
], ids=["Shifting Perceptron", "fixed-shrink Forgetron"])  # fmt: skip
def test_shifting_perceptrons_agree_with_their_vectors(after_stream, parameters, mistakes, stored, value):
    run = after_stream("shifting_perceptron", **parameters)
    assert (run.mistakes, run.stored, run.probe) == (mistakes, stored, value)


def test_the_multitask_perceptron_agrees_with_its_vector(kind):
    engine = run_stream(kind, "linear_perceptron")
    assert (engine.n_mistakes, probe(engine)) == (26, 0.10086)


def test_the_multitask_p_norm_perceptron_agrees_with_its_vector(kind):
    engine = run_stream(kind, "linear_perceptron", norm=3.0)
    assert (engine.n_mistakes, probe(engine)) == (34, 0.03070)


def test_the_second_order_perceptron_agrees_with_its_vector(kind):
    engine = run_stream(kind, "second_order_perceptron", kernels.Linear())
    assert (engine.n_mistakes, engine.n_stored, probe(engine)) == (27, 27, 0.01732)


@pytest.mark.parametrize("relations, rate, as_printed, mistakes, value, c_01", [
    (LOGDET, 0.01, False, 27, 0.58216, -0.09632),
    (VON_NEUMANN, 0.001, False, 27, 0.51767, -0.03361),
    (COVARIANCE, 1.0, False, 24, 0.26888, None),
    (BATCH, 1.0, False, 24, 0.15823, None),
    (LOGDET, 0.01, True, 27, 0.65833, -0.07745),
], ids=["logdet", "von Neumann", "covariance", "batch", "logdet as printed"])  # fmt: skip
@pytest.mark.parametrize("rank", [None, 3])
def test_learned_relations_agree_with_their_vectors(kind, relations, rate, as_printed, mistakes, value, c_01, rank):
    """With three tasks, relations of rank 3 are exact."""
    parameters = {"relations": relations, "rate": rate, "as_printed": as_printed, "start": 30, "tasks": 3, "rank": rank}
    engine = run_stream(kind, "relation_perceptron", **parameters)
    assert (engine.n_mistakes, probe(engine)) == (mistakes, value)
    if c_01 is not None:
        answer = engine.query("relations")
        C = answer["relations"].reshape(3, 3)
        tasks = answer["task"].tolist()
        assert round(float(C[tasks.index(0), tasks.index(1)]), 5) == c_01


# ---- identities


@pytest.mark.parametrize("graph", [
    graphs.complete(), graphs.complete(n_tasks=3, coupling=4.0), graphs.disconnected(),
    graphs.clusters({0: "a", 1: "a", 2: "b"}), graphs.from_edges([(0, 1), (1, 2)], tasks=range(3)),
], ids=repr)  # fmt: skip
def test_the_primal_perceptron_is_the_kernel_perceptron(kind, graph):
    a, b = (run_stream(kind, rule, kernel, graph) for rule, kernel in
            (("linear_perceptron", None), ("perceptron", kernels.Linear())))  # fmt: skip
    assert a.n_mistakes == b.n_mistakes
    assert [probe(a, task) for task in range(3)] == [probe(b, task) for task in range(3)]


def test_the_2_norm_is_the_perceptron_of_the_squared_matrix(kind):
    """The 2-norm rule applies the similarities A⁻¹ twice, so it is the multitask Perceptron with A² in place of A."""
    inverse = np.array([[COMPLETE.similarity(i, j) for j in range(3)] for i in range(3)])
    squared = graphs.from_similarity(inverse @ inverse, tasks=range(3))
    a = run_stream(kind, "linear_perceptron", norm=2.0)
    b = run_stream(kind, "linear_perceptron", graph=squared)
    assert a.n_mistakes == b.n_mistakes and probe(a) == probe(b)


def test_the_spectral_rule_with_power_1_is_independent_perceptrons(kind):
    a = run_stream(kind, "relation_perceptron", relations=SPECTRAL, power=1.0)
    b = run_stream(kind, "linear_perceptron", graph=graphs.disconnected())
    assert a.n_mistakes == b.n_mistakes and probe(a) == probe(b)


def test_the_spectral_rule_is_the_gradient_of_the_schatten_norm(kind):
    """W = ∇½‖V‖²_{2p}, checked by finite differences."""
    p = 3.0
    engine = run_stream(kind, "relation_perceptron", relations=SPECTRAL, power=p)
    state = engine.state()
    V = state["vectors"][:, 0, :]
    half_square = lambda M: 0.5 * (np.linalg.svd(M, compute_uv=False) ** (2 * p)).sum() ** (1 / p)  # noqa: E731
    for r, task in enumerate(state["task"].tolist()):
        for n in range(2):
            step = np.zeros_like(V)
            step[r, n] = 1e-5
            slope = (half_square(V + step) - half_square(V - step)) / 2e-5
            weight = engine.margins(np.eye(2)[n : n + 1], *COMPLETE.locate([task]))[0]
            assert weight == pytest.approx(slope, abs=1e-6)


def test_a_budget_that_spans_all_mistakes_changes_nothing(kind):
    """Three tasks with two columns span six dimensions, so six stored examples describe all 27 mistakes."""
    free = run_stream(kind, "second_order_perceptron", kernels.Linear())
    bounded = run_stream(kind, "second_order_perceptron", kernels.Linear(), capacity=6)
    assert bounded.n_stored == 6 and bounded.n_mistakes == free.n_mistakes
    assert [probe(bounded, task) for task in range(3)] == [probe(free, task) for task in range(3)]


def test_the_dual_is_the_primal_second_order_perceptron():
    """The margin of the primal form is φᵀ(I + SSᵀ + φφᵀ)⁻¹v. The f of the dual form is this margin times s/a; a is 1.

    φ = A^{−½}_i ⊗ x for a row x of task i, where A^{−½}_i is row i of A^{−½}. S has the φ of all mistakes as columns,
    and v is the sum of their y φ. `rules/second_order_perceptron.py` explains s and a. In the code, M = I + SSᵀ.
    """
    A_inverse = np.array([[COMPLETE.similarity(i, j) for j in range(3)] for i in range(3)])
    values, U = np.linalg.eigh(A_inverse)
    root = (U * np.sqrt(values)) @ U.T
    engine = reference.Engine(make_settings(rule="second_order_perceptron", kernel=kernels.Linear(), graph=COMPLETE,
                                            n_features=2))  # fmt: skip
    M, v = np.eye(6), np.zeros(6)
    for x, code, task in zip(X, CODES, TASKS, strict=True):
        phi = np.kron(root[task], x)
        exact = float(phi @ np.linalg.solve(M + np.outer(phi, phi), v))
        margins, _ = engine.learn(x[None], np.array([code], np.int32), *COMPLETE.locate([task]))
        s = 1 + float(phi @ np.linalg.solve(M, phi))
        assert float(margins[0]) == pytest.approx(exact * s, abs=1e-10)
        if (2 * code - 1) * margins[0] <= 0:
            M, v = M + np.outer(phi, phi), v + (2 * code - 1) * phi
