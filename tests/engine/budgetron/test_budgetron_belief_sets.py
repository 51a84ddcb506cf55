"""Which beliefs a Budgetron has: fewer in a small budget than in a large one, which leaves bytes for rows and cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron
from budgetron.engine import memory
from budgetron.engine.reference.rules.budgetron.declaration import BudgetronDeclaration
from budgetron.engine.reference.rules.budgetron.sizes import belief_sets


@pytest.fixture(params=["complete", "edges"])
def all_beliefs(request, make_settings):
    """Return settings of dense rows with all beliefs, before bytes are divided. `edges` adds the filter `PLAIN`."""
    settings = make_settings(request.param).with_parameters(max_task_rows=None)
    return belief_sets.with_all_beliefs(settings, kernel=True)


def test_every_smaller_set_takes_fewer_bytes_and_is_consistent(all_beliefs):
    smaller = [
        *belief_sets.with_several_filters(all_beliefs),
        belief_sets.with_three_filters(all_beliefs, latent=True),
        belief_sets.with_three_filters(all_beliefs, latent=False),
        belief_sets.with_few_filters(all_beliefs),
        belief_sets.with_hashed_biases_only(all_beliefs),
        belief_sets.with_diagonal_covariance(all_beliefs),
    ]
    sizes = []
    for settings in smaller:
        settings = settings.with_parameters(max_task_rows=16, frequencies=32, filter_frequencies=0, bank_frequencies=0)
        BudgetronDeclaration.check(settings)
        sizes.append(memory.bytes_of(settings, compiled=True))
        filters, plain = settings.parameters.filters, settings.parameters.plain_filter
        assert plain is None or filters[plain] == belief_sets.PLAIN[:3]
    whole, bayesian, one_bandwidth, both, three_and_latent, three, few, biases, diagonal = sizes
    assert whole > bayesian > both > three_and_latent > three > few > biases > diagonal
    assert whole > one_bandwidth > both


def test_filters_with_other_bandwidths_are_left_out_of_a_small_budget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = X[:, 0] > 0
    few, many = (Budgetron(budget=budget).partial_fit(X, y).beliefs_ for budget in ("100 KiB", "1 MiB"))
    n_few, n_many = (sum(any(word in str(belief) for word in ("detailed", "smooth")) for belief, _ in beliefs)
                     for beliefs in (few, many))  # fmt: skip
    assert (n_few, n_many) == (0, 2)


def test_tasks_have_own_weights_in_a_small_budget():
    """40 tasks have nothing in common. With own weights for biases only, nearly half of the predictions are wrong."""
    rng = np.random.default_rng(6)
    X, tasks = rng.normal(size=(4000, 10)), rng.integers(40, size=4000)
    y = (X * rng.normal(size=(40, 10))[tasks]).sum(axis=1) > 0
    model = Budgetron(budget="64 KiB")
    margins = model.predict_then_learn(X, y, tasks=tasks)
    assert np.mean((margins[2000:] > 0) != y[2000:]) < 0.2
    assert model.memory_bytes_ <= 64 * 2**10


def test_with_many_columns_filters_that_learn_by_adagrad_or_have_a_lapse_rate_are_left_out():
    """With 100 columns, task rows with all beliefs would be so long that 4 MiB had room for fewer than 200."""
    rng = np.random.default_rng(0)
    for d, has_them in ((10, True), (100, False)):
        model = Budgetron().fit(rng.normal(size=(20, d)), np.arange(20) % 2, tasks=np.arange(20) % 3)
        words = [belief.words for belief, _ in model.beliefs_]
        assert any("some labels random" in text for text in words) == has_them
        assert sum("adapting" in text for text in words) == 1 + has_them
        assert any("kinds of tasks" in text for text in words)


def test_a_small_table_has_one_belief():
    X = sparse.eye(100, 150, format="csr")
    model = {budget: Budgetron(budget=budget).fit(X, np.arange(100) % 2) for budget in ("100 KiB", "4 MiB")}
    assert len(model["100 KiB"].beliefs_) == 1 < len(model["4 MiB"].beliefs_)
