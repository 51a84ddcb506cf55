"""FourierSgd agrees with the test vector of FOGD, its features with the kernel, and both engines with each other."""

from __future__ import annotations

import json

import numpy as np
import pytest

import budgetron
from budgetron import FourierSgd, graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.settings import make_settings
from budgetron.errors import ModelFileError
from budgetron.persist.container import pack, unpack


def rule_of(graph, D, d=2, gamma=0.5):
    settings = make_settings(rule="fourier_sgd", kernel=kernels.Gaussian(gamma), graph=graph, n_features=d, capacity=1,
                             frequencies=D)  # fmt: skip
    return reference.Engine(settings).rule


def test_fourier_sgd_agrees_with_the_vector_of_fogd(monkeypatch):
    """The frequencies are u = (1, 0), (0, 1), (1, −1). The vector has η/D = 0.2, so the rate η is 0.6."""
    from budgetron.engine.reference.rules import fourier_sgd

    U = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0]]) * fourier_sgd.UNIT  # √(2γ) is 1 for γ = ½
    monkeypatch.setattr(fourier_sgd.FourierSgd, "frequencies_of", lambda self, columns: U[columns])
    settings = make_settings(rule="fourier_sgd", kernel=kernels.Gaussian(0.5), graph=graphs.disconnected(),
                             n_features=2, capacity=1, frequencies=3, rate=0.6)  # fmt: skip
    engine, t, zeros = reference.Engine(settings), np.arange(1, 61), np.zeros(60, dtype=np.int64)
    codes = (np.sin(3 * t) + 0.3 * np.cos(7 * t) > 0).astype(np.int32)
    engine.learn(np.column_stack([np.cos(t), np.sin(2 * t)]), codes, zeros, zeros)
    probe = engine.margins(np.array([[0.3, -0.2]]), zeros[:1], zeros[:1])
    assert (engine.n_mistakes, engine.n_stored, round(float(probe[0]), 5)) == (29, 0, 0.35922)


GRAPHS = {
    "complete": graphs.complete(),
    "disconnected": graphs.disconnected(),
    "clusters": graphs.clusters({0: "a", 1: "a", 2: "b"}, coupling=2.0),
    "edges": graphs.from_edges([(0, 1), (1, 2)], tasks=range(3)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_features_are_those_of_the_multitask_kernel(name):
    """Products of features estimate K/c_G²; their error has a standard deviation of at most about 1/√D."""
    D, graph, rng = 20_000, GRAPHS[name], np.random.default_rng(0)
    rule = rule_of(graph, D, d=3)
    X = rng.normal(size=(3, 3))
    task_ids, clusters = graph.locate(range(3))
    psi = np.array([rule.features(x, int(k), int(c)) for x, k, c in
                    zip(rule.store.instances(X), task_ids, clusters, strict=True)])  # fmt: skip
    A = np.array([[graph.similarity(i, j) for j in range(3)] for i in range(3)]) / graph.c_g**2
    expected = A * kernels.Gaussian(0.5)(X, X)
    assert np.abs(psi @ psi.T / D - expected).max() < 5 / np.sqrt(D)


def test_the_numpy_engine_counts_all_bytes_of_its_arrays():
    X = np.random.default_rng(0).normal(size=(200, 50))
    model = FourierSgd(budget="64 KiB", engine="numpy").fit(X, X[:, 0] > 0)
    arrays = [value for value in vars(model._engine.rule).values() if isinstance(value, np.ndarray)]
    assert len(arrays) == 2  # the frequencies and the weights
    assert sum(array.nbytes for array in arrays) <= model.memory_bytes_ <= 64 * 1024


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e12])
def test_engines_agree_far_from_the_origin(offset):
    """Phases beyond the range of the vectorised cosine are computed by the standard library."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3)) + offset
    y = X[:, 0] > offset
    margins = [FourierSgd(budget=20, kernel=kernels.Gaussian(0.3), engine=engine).predict_then_learn(X, y)
            for engine in ("core", "numpy")]  # fmt: skip
    assert np.isfinite(margins[0]).all()
    if offset < 1e6:  # for 1e12, the rounding error of a phase is about 1e-4
        assert np.abs(margins[0] - margins[1]).max() < 1e-9


@pytest.mark.parametrize(("capacity", "shown"), [(5, "5"), (None, "null")])
def test_the_error_for_a_wrong_capacity_in_a_file_says_why_it_is_fixed(tmp_path, capacity, shown):
    FourierSgd(budget="64 KiB").fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "m")
    text, arrays = unpack((tmp_path / "m").read_bytes())
    record = json.loads(text)
    record["settings"]["capacity"] = capacity
    (tmp_path / "m").write_bytes(pack(json.dumps(record).encode(), arrays))
    reason = f"capacity must be 1 for FourierSgd, which stores no examples; got {shown}"
    with pytest.raises(ModelFileError, match=reason):
        budgetron.load(tmp_path / "m")
