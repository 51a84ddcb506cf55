"""Explanations: in both engines the terms add up to the weighted margins of the beliefs, and have the right source."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from small_budgetrons import learn_rows, small_settings, small_stream

from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budgetron import mixture

FORMS = {"dense": {}, "diagonal": {"full_covariance": False}, "linear": {"frequencies": 0, "bins": 0},
         "mixed": {"mixed": True}, "sparse": {"is_sparse": True}, "frequent": {"is_sparse": True, "frequent": (0, 2)}}
GRAPHS = ["complete", "disconnected", "pooled", "clusters", "edges"]
ENGINES = [reference.Engine, *([native.Engine] if native.available else [])]


def run_stream(kind, form, graph, n_outputs):
    settings = small_settings(graph, n_outputs=n_outputs, max_task_rows=5, **FORMS[form])
    rows = {name: value for name, value in FORMS[form].items() if name == "is_sparse"}
    X, codes, tasks = small_stream(90, classes=max(2, n_outputs), **rows)
    engine = kind(settings)
    learn_rows(engine, X, codes, tasks)
    return engine, X, tasks


def terms_of_rows(answer, X, d, outputs):
    """Return the terms of each row, of shape (3 sources, outputs, columns of the row and a constant)."""
    widths = np.diff(X.indptr) + 1 if hasattr(X, "indptr") else np.full(X.shape[0], d + 1)
    ends = np.cumsum(widths * 3 * outputs)
    return [part.reshape(3, outputs, -1) for part in np.split(answer["columns"], ends[:-1])]


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("form", FORMS)
def test_terms_add_up_to_the_weighted_sum_of_the_beliefs(form, graph, n_outputs):
    answers = []
    for kind in ENGINES:
        engine, X, tasks = run_stream(kind, form, graph, n_outputs)
        ids, clusters = engine.settings.graph.locate(list(tasks[:20]))
        answer = engine.query("explain", X[:20], ids, clusters)
        margins = engine.margins(X[:20], ids, clusters)
        assert np.array_equal(answer["margins"], np.ravel(margins))
        answers.append(answer)
    for name in ("margins", "columns", "fourier"):
        for answer in answers[1:]:
            np.testing.assert_allclose(answer[name], answers[0][name], rtol=1e-5, atol=1e-5)
    rule = reference.Engine.restore(engine.settings, engine.state()).rule
    total = answers[-1]["fourier"].reshape(20, -1, 3, n_outputs).sum(axis=(1, 2))
    for index, terms in enumerate(terms_of_rows(answers[-1], X[:20], 4, n_outputs)):
        x = next(iter(rule.store.instances(X[index : index + 1])))
        f = rule.values(rule.see(x, int(ids[index]), int(clusters[index]))[0], rule.parts)  # no part sleeps
        beliefs = np.arange(len(rule.w))
        lapses, combination = rule._lapses(beliefs), rule.combination
        combined = combination.margins(mixture.logs(f, lapses), beliefs, mixture.margins(f, rule.w, lapses))
        shrinkage = rule.calibration.shrinkage(combined)
        of_beliefs = mixture.lapse_factors(f, lapses)[:, None] * f
        w, (_, share) = rule.w, combination.w  # the combination has this share of the prediction
        coefficients = (1 - share) * w + share * (w * (1 - combination.beta.sum()) + combination.beta)
        expected = shrinkage * (rule.calibration.scale * coefficients @ of_beliefs + rule.calibration.offset)
        np.testing.assert_allclose(terms.sum(axis=(0, 2)) + total[index], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse", "frequent"])
@pytest.mark.parametrize("kind", ENGINES)
def test_each_graph_has_only_its_sources_of_terms(kind, form):
    """The sources are 0, weights that all tasks share; 1, the task's own weights; and 2, weights of related tasks.

    Disconnected tasks share nothing. Pooled tasks have nothing of their own. Only graphs with edges or clusters, and
    models that learn relations (the latent part), have terms of related tasks.
    """
    for graph, absent in (("disconnected", [0, 2]), ("pooled", [1, 2]), ("complete", [2])):
        if form != "sparse" and graph == "complete":
            continue  # the latent part learns relations
        engine, X, tasks = run_stream(kind, form, graph, 1)
        ids, clusters = engine.settings.graph.locate(list(tasks[:9]))
        for terms in terms_of_rows(engine.query("explain", X[:9], ids, clusters), X[:9], 4, 1):
            features = terms[:, 0, :-1]  # the constant has the calibration's offset, which is shared
            for source in range(3):
                assert features[source].any() != (source in absent) or not features.any()
    for graph in ("clusters", "edges"):
        engine, X, tasks = run_stream(kind, form, graph, 1)
        ids, clusters = engine.settings.graph.locate(list(tasks[:9]))
        answer = engine.query("explain", X[:9], ids, clusters)
        assert any(terms[2].any() for terms in terms_of_rows(answer, X[:9], 4, 1))


@pytest.mark.parametrize("kind", ENGINES)
def test_a_task_that_was_never_seen_has_nothing_of_its_own(kind):
    engine, X, _ = run_stream(kind, "linear", "complete", 1)
    ids = np.array([77])
    (terms,) = terms_of_rows(engine.query("explain", X[:1], ids, ids), X[:1], 4, 1)
    assert not terms[1].any() and terms[0].any()


@pytest.mark.parametrize("kind", ENGINES)
def test_features_without_a_cell_add_nothing(kind):
    """Features that were never learned have no cell. The table is so large that learned features keep their cells."""
    settings = small_settings("complete", d=500, is_sparse=True, max_task_rows=5, cells=4096)
    engine = kind(settings)
    rng = np.random.default_rng(0)
    values = np.zeros((60, 500))
    values[:, :400] = rng.random((60, 400)) * (rng.random((60, 400)) < 0.02)
    X = sparse.csr_matrix(values)
    learn_rows(engine, X, rng.integers(2, size=60), rng.integers(3, size=60))
    new = sparse.csr_matrix(([1.0, 2.0, 3.0], [X.indices[0], 450, 451], [0, 3]), shape=(1, 500))
    new.sort_indices()
    ids = np.zeros(1, dtype=np.int64)
    (terms,) = terms_of_rows(engine.query("explain", new, ids, ids), new, 500, 1)
    assert terms[:, 0, 0].any() and not terms[:, :, 1:3].any()
