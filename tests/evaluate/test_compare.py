"""Comparisons: each learner runs as if alone, and a difference that chance explains is not significant."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from budgetron import Budgetron, Forgetron, Perceptron, RandomBudgetPerceptron, evaluate, kernels
from budgetron.data import synthetic

STREAM = synthetic.stream(1500, d=5, n_tasks=4, relatedness=0.7, noise=0.1, task_skew=1.0, seed=3).dataset


PARTS = [slice(start, start + 400) for start in range(0, 1500, 400)]
BLOCKS = [(STREAM.X[part], STREAM.y[part], STREAM.tasks[part]) for part in PARTS]


def compared(models: dict) -> evaluate.Comparison:
    """Compare the models on the stream."""
    comparison = evaluate.Comparison(models, classes=[0, 1])
    for block in BLOCKS:
        comparison.add(*block)
    return comparison


def test_each_learner_has_the_figures_of_a_separate_run() -> None:
    def models() -> dict:
        gaussian = kernels.Gaussian(0.2)
        return {"a": Forgetron(20, gaussian), "b": RandomBudgetPerceptron(20, gaussian), "c": Budgetron(20, gaussian)}

    comparison = compared(models())
    for name, model in models().items():
        separate = evaluate.progressive(model, BLOCKS, classes=[0, 1])
        assert comparison.results()[name].validation.to_dict() == separate.to_dict()
    assert comparison.n == 1500 and comparison.refused == {}


def test_is_worse_agrees_with_a_sign_test() -> None:
    def models() -> dict:
        return {"stores one": Forgetron(1, kernels.Linear()), "stores all": Perceptron(kernels.Linear())}

    comparison = compared(models())
    wrong = {}
    for name, model in models().items():
        margins = model.predict_then_learn(STREAM.X, STREAM.y, tasks=STREAM.tasks)
        wrong[name] = (margins > 0) != STREAM.y
    one, all_ = wrong["stores one"], wrong["stores all"]
    only_one_wrong, only_all_wrong = int((one & ~all_).sum()), int((all_ & ~one).sum())
    # `is_worse` approximates this exact test by a normal distribution, at the level 0.05. A p-value below 0.01 is far
    # enough from this level for the two tests to agree.
    assert only_one_wrong > only_all_wrong
    assert binomtest(only_one_wrong, only_one_wrong + only_all_wrong).pvalue < 0.01
    assert comparison.is_worse("stores one", "stores all") and not comparison.is_worse("stores all", "stores one")


def test_equal_learners_are_not_worse() -> None:
    comparison = compared({"a": Forgetron(20, kernels.Linear()), "b": Forgetron(20, kernels.Linear())})
    assert not comparison.is_worse("a", "b") and not comparison.is_worse("b", "a") and not comparison.is_worse("a", "a")


def test_a_learner_that_rejects_the_first_block_is_left_out() -> None:
    kernel = kernels.Polynomial(2)
    comparison = compared({"takes": Forgetron(5, kernel), "refuses": Budgetron(5, kernel)})
    assert list(comparison.results()) == ["takes"] and "kernel must be Gaussian()" in comparison.refused["refuses"]
    with pytest.raises(ValueError, match="no learner accepts the stream"):
        compared({"refuses": Budgetron(5, kernel)})
    with pytest.raises(ValueError, match="known classes"):
        comparison.add(np.zeros((1, 5)), [7], [0])


def test_auc_distinguishes_learners_if_a_label_is_rare() -> None:
    """All models have about the error of the constant prediction, but only "good" has learned to rank examples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    y = rng.random(12_000) < 0.02 * np.exp(1.2 * X[:, 0])
    models = {"good": Budgetron(budget=20), "noise": LearnsNoise(), "other noise": LearnsOtherNoise()}
    comparison = evaluate.Comparison(models, classes=[False, True])
    for start in range(0, 12_000, 4000):
        comparison.add(X[start : start + 4000], y[start : start + 4000])
    assert comparison.is_worse("noise", "good", by="auc") and not comparison.is_worse("good", "noise", by="auc")
    assert not comparison.is_worse("noise", "other noise", by="auc") and not comparison.is_worse("noise", "good")


class LearnsNoise(Budgetron):
    """Learns from noise in place of the columns of X."""

    noise_seed = 1

    def predict_then_learn(self, X, y, **others):  # type: ignore[no-untyped-def]
        noise = np.random.default_rng([self.noise_seed, getattr(self, "n_seen_", 0)]).normal(size=X.shape)
        return super().predict_then_learn(noise, y, **others)


class LearnsOtherNoise(LearnsNoise):
    noise_seed = 2
