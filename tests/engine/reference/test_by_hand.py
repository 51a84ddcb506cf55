"""Small cases, each worked by hand in its comments. Kernels are linear unless a comment says otherwise.

`(1,0)+` is an example with the row (1, 0) and a positive label; f is its margin before learning. In `flags`, 1 means a
mistake, 2 an update, and 4 that the example is stored. Other symbols are those of the rule's module.
"""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs, kernels

E = np.eye(8)


def test_perceptron_single_task(run):
    model = run("perceptron", 2)
    # (1,0)+: f = 0, a mistake, stored with +1.      (2,1)−: f = 2, a mistake, stored with −1.
    # (0,1)+: f = −1, a mistake, stored with +1.     (1,1)+: f = 1 − 3 + 1 = −1, a mistake, stored with +1.
    # (1,0)−: f = 1 − 2 + 0 + 1 = 0, a mistake.      (0,1)−: f = −1 + 1 + 1 − 0 = 1, a mistake.
    # (1,0)−: f = 0 − 1 = −1, right.
    X = [(1, 0), (2, 1), (0, 1), (1, 1), (1, 0), (0, 1), (1, 0)]
    margins, flags = model.learn(X, [1, 0, 1, 1, 0, 0, 0])
    assert margins.tolist() == [0, 2, -1, -1, 0, 1, -1]
    assert flags.tolist() == [7, 7, 7, 7, 7, 7, 0]
    assert model.coef.tolist() == [[1, -1, 1, 1, -1, -1]]
    assert (model.engine.n_seen, model.engine.n_mistakes, model.engine.n_stored) == (7, 6, 6)


def test_perceptron_on_the_complete_graph_of_three_tasks(run):
    # k = 3: A⁻¹ has 2/4 on the diagonal and 1/4 elsewhere.
    model = run("perceptron", 1, graph=graphs.complete(n_tasks=3))
    margins, _ = model.learn([[1], [2], [2], [1]], [1, 0, 1, 1], [7, 8, 7, 9])
    # task 7, +: 0, stored +1.          task 8, −: ¼·1·2 = ½, a mistake, stored −1.
    # task 7, +: ½·2 − ¼·2·2 = 0, a mistake, stored +1.
    # task 9, +: ¼(1 − 2 + 2) = ¼, right.
    assert margins.tolist() == [0, 0.5, 0, 0.25]
    # Task 8's weights on the three: ¼·1, ½·(−1), ¼·1.
    assert model.weights_of(8).tolist() == [[0.25, -0.5, 0.25]]


def test_the_perceptron_with_three_classes(run):
    # (1,0) of class 2: f = (0, 0, 0), a mistake against class 0, the lowest of the tied classes: (−1, 0, +1).
    # (1,0) of class 1: f = (−1, 0, 1), a mistake against class 2: (0, +1, −1).
    # (1,1) of class 1: f = (−1, 1, 0), right.
    # (1,0) of class 2: f = (−1, 1, 0), a mistake against class 1: (0, −1, +1).
    model = run("perceptron", 2, n_outputs=3)
    margins, flags = model.learn([(1, 0), (1, 0), (1, 1), (1, 0)], [2, 1, 1, 2])
    assert margins.tolist() == [[0, 0, 0], [-1, 0, 1], [-1, 1, 0], [-1, 1, 0]]
    assert flags.tolist() == [7, 7, 0, 7]
    assert model.coef.T.tolist() == [[-1, 0, 1], [0, 1, -1], [0, -1, 1]]


def test_the_generator_is_splitmix64(run):
    # Orthogonal rows: every example is a mistake. splitmix64 from seed 0 gives, as published,
    # 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F: the fractions 0.883…, 0.431…, 0.026… of 2⁶⁴.
    # Times 3: slots 2, 1, 0. So arrival 3 takes slot 2, arrival 4 slot 1, arrival 5 slot 0.
    model = run("random_budget_perceptron", 8, capacity=3)
    model.learn(E[:4], [1, 1, 0, 0])
    assert model.arrivals == [0, 1, 3]
    model.learn(E[4:6], [1, 1])
    assert model.arrivals == [5, 4, 3]
    assert model.coef.tolist() == [[1, 1, -1]]
    assert np.array_equal(model.engine.active()["rows"], E[[5, 4, 3]])


def test_forgetron_of_budget_one(run):
    model = run("forgetron", 8, capacity=1)
    # e0+: M = 1, β = 1. e1+: f = 0, M = 2; r = e0, σ = 1, μ = f'(e0) = 1:
    # φ² + 2φ − 2φ² ≤ (15/32)·2 gives (1−φ)² ≥ 1/16, φ = ¾; Q = 2·¾ − 9/16 = 15/16; e1 has β = ¾.
    model.learn(E[:2], [1, 1])
    assert model.arrivals == [1]
    assert model.coef[0, 0] == pytest.approx(3 / 4, rel=1e-14)
    assert model.engine.state()["q"] == pytest.approx(15 / 16, rel=1e-14)
    # e2−: f = 0, M = 3; r = e1, σ = μ = ¾. With u = σφ: u² + 2u − 2u² ≤ 45/32 − 30/32, (1−u)² ≥ 17/32.
    model.learn(E[2:3], [0])
    phi = (1 - np.sqrt(17 / 32)) / (3 / 4)
    assert model.coef[0, 0] == pytest.approx(-phi, rel=1e-14)
    assert model.engine.state()["q"] == pytest.approx(45 / 32, rel=1e-14)


def test_forgetron_counts_the_new_example_into_mu(run):
    # (1,0)+ stored. (.6,.8)−: f = .6, a mistake, M = 2; r = (1,0), σ = 1, μ = 1 − .6 = .4, not 1:
    # φ² + 2φ − .8φ² ≤ 15/16, so .2φ² + 2φ − 15/16 = 0, φ = (−2 + √4.75)/.4.
    model = run("forgetron", 2, capacity=1)
    model.learn([(1, 0), (0.6, 0.8)], [1, 0])
    assert model.coef[0, 0] == pytest.approx(-(-2 + np.sqrt(4.75)) / 0.4, rel=1e-12)


def test_projectron_projects(run):
    # (1,0)+ stored. (2,0)−: f = 2, a mistake in the span, α = 2: β = 1 − 2.
    # (0,.005)+: f = 0, a mistake, but K_tt ≤ η²: nothing changes.
    # (3,.005)+: f = −3; δ² = .000025 ≤ η², α = 3: β = −1 + 3 = 2. (0,1)+: f = 0, δ² = 1: stored.
    model = run("budget_projectron", 2, capacity=5, eta=0.01)
    margins, flags = model.learn([(1, 0), (2, 0), (0, 0.005), (3, 0.005), (0, 1)], [1, 0, 1, 1, 1])
    assert margins == pytest.approx([0, 2, 0, -3, 0])
    assert flags.tolist() == [7, 3, 1, 3, 7]
    assert model.coef == pytest.approx(np.array([[2, 1]]))


def test_a_distance_of_exactly_eta_is_projected(run):
    # (1,0)+ stored. (1,½)−: f = 1, α = 1, δ² = 5/4 − 1 = ¼ = η², all exact in binary: β = 1 − 1.
    model = run("budget_projectron", 2, eta=0.5)
    _, flags = model.learn([(1, 0), (1, 0.5)], [1, 0])
    assert flags.tolist() == [7, 3]
    assert model.coef.tolist() == [[0]]


@pytest.mark.parametrize("rule", ["budget_projectron", "shared_projectron"])
def test_projectron_evicts(run, rule):
    # B = 2 holds a = (1,0,0) and b = (0,2,0), both +. x_t = (−1,−4,2)+: f = −1 − 8 < 0; δ² = 4: stored.
    # Distance of a from the span of b and x_t, which is the span of (0,1,0) and (−1,0,2): 2/√5.
    # Distance of b from the span of a and x_t, which is the span of (1,0,0) and (0,−2,1): 2·1/√5.
    # A tie: a is older, so it is evicted. Its projection is ⟨a,(−1,0,2)⟩/5 = −1/5 of (−1,0,2) = x_t + 2b.
    # So b is left with 1 − 2/5 and x_t, in slot 0, with 1 − 1/5.
    model = run(rule, 3, capacity=2, eta=0.1)
    model.learn([(1, 0, 0), (0, 2, 0), (-1, -4, 2)], [1, 1, 1])
    assert model.arrivals == [2, 1]
    assert model.coef == pytest.approx(np.array([[4 / 5, 3 / 5]]))
    assert model.weights_of(0) == pytest.approx(np.array([[4 / 5, 3 / 5]]))


def test_shared_projectron_updates_other_tasks(run):
    # k = 3, A⁻¹ = ½ and ¼. Task 0: e0+ stored: β_0 = ½, β_1 = β_2 = ¼ on e0.
    # Task 1: 2e0−: f = ½, a mistake in the span, α = 2: β_1 = ¼ − 2·½ = −¾, β_0 = ½ − 2·¼ = 0,
    # β_2 = ¼ − 2·¼ = −¼ (although task 2 has no example).
    model = run("shared_projectron", 8, graph=graphs.complete(n_tasks=3), capacity=4, eta=0.01)
    margins, flags = model.learn([E[0], 2 * E[0]], [1, 0], [0, 1])
    assert margins.tolist() == [0, 0.5] and flags.tolist() == [7, 3]
    assert [model.weights_of(task)[0, 0] for task in range(3)] == pytest.approx([0, -0.75, -0.25])


def test_a_margin_with_the_gaussian_kernel(run):
    # ‖(0,0) − (1,1)‖² = 2: f = exp(−½·2) = 1/e.
    model = run("perceptron", 2, kernel=kernels.Gaussian(gamma=0.5))
    model.learn([(0, 0)], [1])
    assert model.margins([(1, 1), (0, 0)]) == pytest.approx([np.exp(-1), 1])
