"""`should_ask` asks for about the requested share of labels, near the boundary. Asking at random gives more errors."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import budgetron
from budgetron import Budgetron, Forgetron
from budgetron.errors import InputError
from budgetron.learners.asking import FIRST_LABELS, Asking, lead_of


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 20.0, 1e6])
def test_about_the_requested_share_is_asked_for_at_any_scale_of_margins(share, scale):
    rng, asking = np.random.default_rng(0), Asking()
    leads = np.abs(rng.normal(size=5000)) * scale
    wanted = np.array([asking.wants(float(lead), 1000, share) for lead in leads])
    assert abs(wanted[500:].mean() - share) < 0.25 * share and asking.asked == wanted.sum()
    # With small margins, errors are expected everywhere, so labels near the boundary are not worth more than others.
    if scale > 1:
        assert np.median(leads[500:][wanted[500:]]) < 0.8 * np.median(leads)


def test_the_share_is_kept_while_margins_grow():
    rng, asking = np.random.default_rng(0), Asking()
    leads = np.abs(rng.normal(size=8000)) * np.linspace(0.1, 10, 8000)
    wanted = np.array([asking.wants(float(lead), 1000, 0.1) for lead in leads])
    for part in np.split(wanted, 4)[1:]:
        assert 0.05 < part.mean() < 0.15


def test_some_labels_are_asked_for_at_random():
    """If all margins are large, a tenth of the requested share is asked for at random, among all tasks.

    The margin of every seventh example is smaller. So the threshold stays below the other margins, and the labels of
    the other examples are only asked for at random.
    """
    asking = Asking()
    is_smaller = np.arange(10_000) % 7 == 0
    wanted = np.array([asking.wants(10.0 if smaller else 50.0, 1000, 0.1) for smaller in is_smaller])
    at_random = wanted & ~is_smaller
    assert 50 < at_random.sum() < 130  # a hundredth of 8,571
    for period in (10, 25, 100):  # tasks that take turns
        assert (at_random.reshape(-1, period).sum(axis=0) > 0).mean() > 0.4


def test_a_learner_with_a_budget_of_examples_asks_too():
    X, y, tasks = stream(80)
    model = Forgetron(20).fit(X, y, tasks=tasks)
    assert {model.should_ask(x, task=0, share=0.3) for x in X} == {True, False}


def test_the_lead_is_the_distance_between_the_two_highest_margins():
    assert lead_of(-2.5) == 2.5 and lead_of(np.array([-1.0, 3.0, 2.5])) == 0.5 and lead_of([1.0]) == 1.0


def test_the_first_labels_are_always_asked_for():
    model = Budgetron()
    rng = np.random.default_rng(0)
    for step in range(FIRST_LABELS):
        x = rng.normal(size=3)
        assert model.should_ask(x, task="ann")
        model.learn_one(x, step % 2, task="ann", classes=[0, 1])


def stream(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 10)), rng.integers(5, size=n)
    return X, (X[:, :3].sum(axis=1) > 0).astype(int), tasks.tolist()


def test_asking_gives_fewer_errors_than_random_labels():
    X, y, tasks = stream()
    errors = {}
    for choice in ("random", "asked"):
        model, rng, wrong, labels = Budgetron(), np.random.default_rng(1), 0, 0
        for x, label, task in zip(X, y, tasks, strict=True):
            wrong += model.predict_one(x, task=task) != label if labels else 1
            at_random = rng.random() < 0.1 or labels < FIRST_LABELS
            if at_random if choice == "random" else model.should_ask(x, task=task, share=0.1):
                labels += 1
                model.learn_one(x, int(label), task=task, classes=[0, 1])
        errors[choice] = wrong
        assert 200 < labels < 450
    assert errors["asked"] < 0.9 * errors["random"]


def test_asking_changes_neither_predictions_nor_the_model(tmp_path):
    X, y, tasks = stream(60)
    model = Budgetron().fit(X, y, tasks=tasks)
    before = model.decision_function(X, tasks=tasks)
    for x in X:
        model.should_ask(x, task=1)
    assert np.array_equal(model.decision_function(X, tasks=tasks), before)
    model.save(tmp_path / "m")
    loaded, copied = budgetron.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))
    assert isinstance(loaded.should_ask(X[0], task=1), bool)
    assert copied._asking.n == model._asking.n and isinstance(copied.should_ask(X[0], task=1), bool)


def test_after_fit_a_model_asks_as_a_new_one_does():
    """`fit` forgets everything, so the threshold of the old margins must not decide about the labels of new rows."""
    X, y, tasks = stream(400)
    used, new = Budgetron().fit(X, y, tasks=tasks), Budgetron().fit(X[:100], y[:100], tasks=tasks[:100])
    for x in X:
        used.should_ask(x, task=1, share=0.3)
    used.fit(X[:100], y[:100], tasks=tasks[:100])
    answers = [[model.should_ask(x, task=1, share=0.3) for x in X] for model in (used, new)]
    assert answers[0] == answers[1] and set(answers[0]) == {True, False}


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan"), "0.1", None, True])
def test_wrong_shares_are_refused(share):
    for model in (Budgetron(), Budgetron().fit([[0.0], [1.0]], [0, 1])):
        with pytest.raises(InputError, match="share must be a number above 0"):
            model.should_ask([0.5], share=share)


def test_wrong_examples_are_refused():
    model = Budgetron().fit([[0.0], [1.0]], [0, 1], tasks=["ann", "ann"])
    for arguments in ({"x": [0.5]}, {"x": [0.5, 1.0], "task": "ann"}, {"x": [np.nan], "task": "ann"}):
        with pytest.raises((InputError, TypeError)):
            model.should_ask(**arguments)


def test_two_threads_that_ask_first_share_their_counts(monkeypatch):
    both_begin = threading.Barrier(2, timeout=60)

    class Slow(Asking):
        """Both threads create one before either can be used."""

        def __init__(self):
            both_begin.wait()
            super().__init__()

    monkeypatch.setattr("budgetron.learners.asking.Asking", Slow)
    model = Budgetron(budget="64 KiB").partial_fit([[0.0], [1.0]], [0, 1])
    threads = [threading.Thread(target=model.should_ask, args=([0.5],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert model._asking.n == 2
