"""Learners side by side: each as if it were alone, and a difference that chance explains is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from budgetron import Budgetron, Forgetron, Perceptron, RandomBudgetPerceptron, evaluate, graphs, kernels
from budgetron.data import synthetic

STREAM = synthetic.stream(1500, d=5, n_tasks=4, relatedness=0.7, noise=0.1, task_skew=1.0, seed=3).dataset


PARTS = [slice(start, start + 400) for start in range(0, 1500, 400)]
BLOCKS = [(STREAM.X[part], STREAM.y[part], STREAM.tasks[part]) for part in PARTS]


def raced(models: dict) -> evaluate.Race:
    race = evaluate.Race(models, classes=[0, 1])
    for block in BLOCKS:
        race.add(*block)
    return race


def test_each_runs_as_if_alone() -> None:
    def models() -> dict:
        gaussian = kernels.Gaussian(0.2)
        return {"a": Forgetron(20, gaussian), "b": RandomBudgetPerceptron(20, gaussian), "c": Budgetron(20, gaussian)}

    race = raced(models())
    for name, model in models().items():
        alone = evaluate.progressive(model, BLOCKS, classes=[0, 1])
        assert race.results()[name].validation.to_dict() == alone.to_dict()
    assert race.n == 1500 and race.refused == {}


def test_worse_is_what_a_sign_test_calls_worse() -> None:
    models = {"one": Forgetron(1, kernels.Linear()), "all": Perceptron(kernels.Linear())}
    race = raced(models)
    wrong = {}
    for name, model in {"one": Forgetron(1, kernels.Linear()), "all": Perceptron(kernels.Linear())}.items():
        margins = model.predict_then_learn(STREAM.X, STREAM.y, tasks=STREAM.tasks)
        wrong[name] = (margins > 0) != STREAM.y
    b, c = int((wrong["one"] & ~wrong["all"]).sum()), int((wrong["all"] & ~wrong["one"]).sum())
    sure = binomtest(b, b + c).pvalue < 0.01  # far from the border, where the normal approximation is as good
    assert sure and race.is_worse("one", "all") and not race.is_worse("all", "one")


def test_equals_are_not_worse() -> None:
    race = raced({"a": Forgetron(20, kernels.Linear()), "b": Forgetron(20, kernels.Linear())})
    assert not race.is_worse("a", "b") and not race.is_worse("b", "a") and not race.is_worse("a", "a")


def test_who_refuses_the_first_block_is_left_out() -> None:
    graph = graphs.clusters({0: "a", 1: "a"})
    race = raced({"follows": Forgetron(5, graph=graph), "refuses": Budgetron(5, graph=graph)})
    assert list(race.results()) == ["follows"] and "graph must be complete()" in race.refused["refuses"]
    with pytest.raises(ValueError, match="one can learn the stream"):
        raced({"refuses": Budgetron(5, graph=graph)})
    with pytest.raises(ValueError, match="known classes"):
        race.add(np.zeros((1, 5)), [7], [0])
