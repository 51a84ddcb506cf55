"""Progressive validation: its figures equal scikit-learn's; forms of streams, delayed labels, limits, errors."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, precision_score, recall_score

from budgetron import (
    Budgetron,
    Forgetron,
    Perceptron,
    RandomBudgetPerceptron,
    SharedProjectron,
    evaluate,
    graphs,
    kernels,
)
from budgetron.data import synthetic
from budgetron.evaluate.curve import MAX_POINTS
from budgetron.kernels import Kernel

STREAM = synthetic.stream(900, d=6, n_tasks=5, relatedness=0.7, noise=0.1, task_skew=1.0, seed=3).dataset
X, Y, TASKS = STREAM.X, STREAM.y, STREAM.tasks


def learner(budget: int = 30) -> SharedProjectron:
    return SharedProjectron(
        budget=budget, kernel=kernels.Gaussian(gamma=0.2), graph=graphs.complete(n_tasks=5)
    )


def plain_margins() -> np.ndarray:
    return learner().predict_then_learn(X, Y, tasks=TASKS)


def test_figures_equal_those_of_scikit_learn() -> None:
    result, predicted = evaluate.progressive(learner(), (X, Y, TASKS), window=250), plain_margins() > 0
    for rows, figures in [
        (slice(None), result.overall),
        *((task == TASKS, row) for task, row in result.per_task.items()),
    ]:
        truth, predictions = Y[rows], predicted[rows]
        assert figures.n == len(truth)
        assert figures.error == pytest.approx(np.mean(truth != predictions))
        assert figures.f_measure == pytest.approx(f1_score(truth, predictions))
        assert figures.precision == pytest.approx(precision_score(truth, predictions))
        assert figures.recall == pytest.approx(recall_score(truth, predictions))
    assert set(result.per_task) == set(TASKS.tolist()) and result.others is None
    assert result.macro["f_measure"] == pytest.approx(
        np.mean([row.f_measure for row in result.per_task.values()])
    )
    assert result.macro["error"] == pytest.approx(np.mean([row.error for row in result.per_task.values()]))


def test_zero_margins_count_as_mistakes() -> None:
    model = learner()
    result = evaluate.progressive(model, (X, Y, TASKS), window=128)
    assert (
        result.overall.mistakes == model.n_mistakes_ == sum(row.mistakes for row in result.per_task.values())
    )
    never_right = evaluate.progressive(
        Perceptron(kernels.Linear()), (np.zeros((7, 2)), [0, 1, 0, 0, 1, 0, 0])
    )
    assert never_right.overall.mistakes == 7 and never_right.overall.error == pytest.approx(2 / 7)


@pytest.mark.parametrize("window", [pytest.param(1, marks=pytest.mark.long), 97, 900, 5000])
def test_the_window_size_does_not_change_the_totals(window: int) -> None:
    model = learner()
    result, margins = evaluate.progressive(model, (X, Y, TASKS), window=window), plain_margins()
    assert result.overall == evaluate.progressive(learner(), (X, Y, TASKS)).overall
    assert sum(point.window.n for point in result.curve) == len(Y) == result.curve[-1].position
    start = 0
    for point in result.curve:
        window_rows, rows_so_far = slice(start, point.position), slice(0, point.position)
        assert point.window.error == pytest.approx(np.mean(Y[window_rows] != (margins[window_rows] > 0)))
        so_far = f1_score(Y[rows_so_far], margins[rows_so_far] > 0, zero_division=np.nan)
        assert point.so_far.f_measure == (None if np.isnan(so_far) else pytest.approx(so_far))
        start = point.position
    assert result.curve[-1].budget_share == model.budget_share_
    assert (result.curve[-1].stored, result.curve[-1].memory_bytes) == (model.n_stored_, model.memory_bytes_)


class CountingKernel(Kernel):
    """A Gaussian kernel that counts the values that it computes."""

    n_values = 0

    def of_products(self, dot: Any, sq_a: Any, sq_b: Any) -> Any:
        type(self).n_values += np.size(dot)
        return np.exp(-0.2 * np.maximum(sq_a + sq_b - 2 * dot, 0.0))


def test_no_margin_is_computed_twice() -> None:
    counts = []
    for run in (
        lambda model: model.predict_then_learn(X, Y, tasks=TASKS),
        lambda model: evaluate.progressive(model, (X, Y, TASKS), window=900),
        lambda model: evaluate.progressive(model, (X, Y, TASKS), window=100),
    ):
        CountingKernel.n_values = 0
        run(Forgetron(budget=20, kernel=CountingKernel(), engine="numpy"))
        counts.append(CountingKernel.n_values)
    assert counts[0] == counts[1]
    # Validating the first block also computes kernel values. With windows of 100, the first block is smaller.
    assert counts[2] <= counts[0]


def test_all_forms_of_a_stream_give_the_same_result() -> None:
    expected = evaluate.progressive(learner(), (X, Y, TASKS), window=200).to_dict()
    blocks = [
        (X[start : start + 70], Y[start : start + 70], TASKS[start : start + 70])
        for start in range(0, 900, 70)
    ]
    for stream in (STREAM, blocks, iter(blocks), zip(X, Y, TASKS, strict=True)):
        assert evaluate.progressive(learner(), stream, window=200, classes=[0, 1]).to_dict() == expected


def test_dicts_are_hashed_as_learn_one_does() -> None:
    rows = [{"a": 1.0, "word": w} for w in ("x", "y", "z", "x", "y", "z", "x", "x")]
    labels, tasks = [1, 0, 0, 1, 0, 1, 1, 1], list("ppqqppqq")
    one_by_one = Perceptron(kernel=kernels.Linear())
    margins = [
        one_by_one.learn_one(x, y, task=t, classes=[0, 1]) for x, y, t in zip(rows, labels, tasks, strict=True)
    ]
    wrong = np.mean([(margin > 0) != label for margin, label in zip(margins, labels, strict=True)])
    stream = zip(rows, labels, tasks, strict=True)
    result = evaluate.progressive(Perceptron(kernel=kernels.Linear()), stream, classes=[0, 1])
    assert result.overall.error == pytest.approx(wrong) and result.overall.mistakes == one_by_one.n_mistakes_


@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("cuts", [[], [1], [64, 65, 128, 500], list(range(0, 900, 100))])
def test_a_stream_in_pieces_gives_the_figures_of_the_whole(delay: int, cuts: list[int]) -> None:
    whole = evaluate.progressive(learner(), (X, Y, TASKS), delay=delay, window=128)
    validator = evaluate.Validator(learner(), delay=delay, window=128, classes=[0, 1])
    for start, end in itertools.pairwise([0, *cuts, len(Y)]):
        validator.add(X[start:end], Y[start:end], TASKS[start:end])
        expected = evaluate.progressive(learner(), (X[:end], Y[:end], TASKS[:end]), window=128, classes=[0, 1])
        if not delay and end:
            assert validator.so_far == expected.overall
            assert validator.result().to_dict() == expected.to_dict()
    assert validator.finish().to_dict() == whole.to_dict()


def test_a_result_does_not_change_when_more_is_added() -> None:
    validator = evaluate.Validator(Budgetron(budget=10), window=200, classes=[0, 1])
    validator.add(X[:300], Y[:300], TASKS[:300])
    early = validator.result()
    before = json.dumps(early.to_dict())
    validator.add(X[300:], Y[300:], TASKS[300:])
    assert json.dumps(early.to_dict()) == before
    assert [point.position for point in early.curve] == [200, 300]


@pytest.mark.parametrize("delay", [1, 7, 40])
def test_delayed_labels_are_learned_after_the_delay(delay: int) -> None:
    n = 300
    model, margins = learner(), []
    for t in range(n):  # by definition, example t is predicted after examples 0 to t − delay − 1 were learned
        learned = t - delay - 1
        if learned >= 0:
            model.learn_one(X[learned], int(Y[learned]), task=TASKS[learned], classes=[0, 1])
        margins.append(model.decision_function(X[t : t + 1], tasks=TASKS[t : t + 1])[0] if learned >= 0 else 0.0)
    delayed = learner()
    result = evaluate.progressive(delayed, (X[:n], Y[:n], TASKS[:n]), delay=delay, window=64)
    assert result.overall.error == pytest.approx(np.mean((np.array(margins) > 0) != Y[:n]))
    assert result.delay == delay and delayed.n_seen_ == n  # the last labels are learned too
    assert [point.position for point in result.curve] == [64, 128, 192, 256, 300]


def test_with_a_delay_longer_than_the_stream_nothing_is_learned() -> None:
    result = evaluate.progressive(learner(), (X[:50], Y[:50], TASKS[:50]), delay=50)
    assert result.overall.mistakes == 50 and result.overall.error == pytest.approx(Y[:50].mean())


def test_the_points_and_tasks_of_a_result_are_bounded() -> None:
    n = MAX_POINTS + 300
    rng = np.random.default_rng(0)
    rows, labels, tasks = rng.standard_normal((n, 2)), rng.integers(0, 2, n), np.arange(n)
    result = evaluate.progressive(
        RandomBudgetPerceptron(5, kernels.Linear()), (rows, labels, tasks), window=1, max_tasks=10
    )
    assert list(result.per_task) == list(range(10))
    assert result.others is not None and result.others.n == n - 10
    assert len(result.curve) <= MAX_POINTS
    assert sum(point.window.n for point in result.curve) == n == result.curve[-1].position
    assert sum(point.window.mistakes for point in result.curve) == result.overall.mistakes
    assert all(a.position < b.position for a, b in zip(result.curve, result.curve[1:], strict=False))


@pytest.mark.parametrize("n", [MAX_POINTS, MAX_POINTS + 1, 2 * MAX_POINTS + 1, 5 * MAX_POINTS + 3])
def test_all_points_of_a_long_stream_have_windows_of_one_length(n: int) -> None:
    rows, labels = np.random.default_rng(0).standard_normal((n, 2)), np.arange(n) % 2
    validator = evaluate.Validator(RandomBudgetPerceptron(5, kernels.Linear()), window=1, classes=[0, 1])
    validator.add(rows, labels)
    # The shortest window that gives at most MAX_POINTS points: one example, doubled as often as needed.
    window = 1
    while n > MAX_POINTS * window:
        window *= 2
    points = validator.result().curve
    assert [point.position for point in points] == [*range(window, n, window), n]
    assert [point.window.n for point in points] == np.diff([0, *range(window, n, window), n]).tolist()
    assert points == validator.result().curve  # reading the curve does not change it


class Logistic:
    """A minimal learner: its margins are fixed log odds."""

    classes_ = np.array([0, 1])

    def __init__(self, margins: np.ndarray) -> None:
        self.margins, self.position = margins, 0

    def predict_then_learn(self, X: Any, y: Any, tasks: Any = None, classes: Any = None) -> np.ndarray:
        self.position += len(y)
        return self.margins[self.position - len(y) : self.position]

    def predict_proba(self, X: Any) -> None:
        raise AssertionError("would compute the margins again")


def test_margins_that_are_log_odds_give_probabilities() -> None:
    rng = np.random.default_rng(1)
    margins = rng.normal(scale=3, size=2000)
    probability = 1 / (1 + np.exp(-margins))
    truth = (rng.random(2000) < probability).astype(int)
    X1, tasks = np.zeros((2000, 1)), rng.integers(0, 2, 2000)
    result = evaluate.progressive(Logistic(margins), (X1, truth, tasks), window=300)
    assert result.overall.log_loss == pytest.approx(log_loss(truth, probability))
    assert result.per_task[1].log_loss == pytest.approx(log_loss(truth[tasks == 1], probability[tasks == 1]))
    # The labels are drawn from the predicted probabilities, so these are calibrated.
    assert result.calibration is not None and result.calibration.ece < 0.04
    overconfident = evaluate.progressive(Logistic(3 * margins), (X1, truth, tasks))
    assert overconfident.calibration is not None and overconfident.calibration.ece > 0.08
    for row in result.calibration.bins():
        inside = (probability * 20).astype(int) == int(row["predicted"] * 20)
        assert row["n"] == inside.sum()
        assert row["came_true"] == pytest.approx(truth[inside].mean())
        assert row["predicted"] == pytest.approx(probability[inside].mean())
    assert evaluate.progressive(learner(), (X, Y, TASKS)).calibration is None


def test_metrics_of_more_than_two_classes() -> None:
    labels = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    result = evaluate.progressive(Perceptron(kernels.Gaussian(0.2)), (X, labels, TASKS), window=100)
    model = Perceptron(kernels.Gaussian(0.2))
    margins = model.predict_then_learn(X, labels, tasks=TASKS)
    predicted = model.classes_[margins.argmax(axis=1)]
    assert result.overall.f_measure == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert result.overall.error == pytest.approx(np.mean(labels != predicted))
    assert result.overall.mistakes == model.n_mistakes_


def test_undefined_figures_are_none() -> None:
    model = Perceptron(kernels.Linear(bias=1.0))
    only_negative = evaluate.progressive(model, (np.ones((20, 1)), [0] * 20), classes=[0, 1])
    assert only_negative.overall.f_measure is None and only_negative.overall.error == 0.0
    assert only_negative.macro["f_measure"] is None


def test_a_result_converts_to_json_and_text() -> None:
    result = evaluate.progressive(learner(), (X, Y, TASKS))
    assert json.loads(json.dumps(result.to_dict()))["overall"]["n"] == 900
    assert result.summary().startswith("900 examples of 5 tasks: ") and str(result) == result.summary()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"delay": -1}, "delay must be an integer >= 0; got -1."),
        ({"window": 0}, "window must be an integer >= 1; got 0."),
        ({"max_tasks": True}, "max_tasks must be an integer >= 1; got True."),
    ],
)
def test_invalid_options_of_progressive_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r"evaluate\.progressive: ") as caught:
        evaluate.progressive(learner(), (X, Y, TASKS), **wrong)
    assert says in str(caught.value)


def test_invalid_streams_and_learners_are_rejected() -> None:
    for stream in ("rows.csv", 3, [X]):
        with pytest.raises(TypeError, match="stream must be"):
            evaluate.progressive(learner(), stream)
    with pytest.raises(TypeError, match="model must be a learner"):
        evaluate.progressive(object(), (X, Y, TASKS))
    with pytest.raises(ValueError, match="some have not"):
        evaluate.progressive(learner(), iter([(X[0], 1, "a"), (X[1], 0)]), classes=[0, 1])
