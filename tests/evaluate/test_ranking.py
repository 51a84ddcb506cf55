"""ROC-AUC, average precision and Brier score are compared with scikit-learn, precision at k with its definition.

Up to 4,096 scores are ranked exactly. More scores are counted in bins, and the figures are close to the exact ones.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from budgetron import Budgetron, Forgetron, evaluate, kernels
from budgetron.data import synthetic
from budgetron.decisions.score_grid import BINS, bins_of, edges
from budgetron.errors import InputError
from budgetron.evaluate.metrics import ranking_counts
from budgetron.evaluate.metrics.ranking import Ranking, auc, auc_within, average_precision, average_precision_within
from budgetron.evaluate.metrics.ranking_counts import RankingCounts
from budgetron.evaluate.metrics.window_ranks import added, ranks

# Lists of (score, whether it is positive, weight). There are only seven scores, so many of them tie.
SCORED = st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=2, max_size=40)


@given(SCORED)
def test_exact_figures_equal_those_of_scikit_learn_with_ties_and_weights(rows: list[tuple[int, bool, int]]) -> None:
    scores, y = np.array([row[0] / 2 for row in rows]), np.array([row[1] for row in rows])
    weight = np.array([row[2] for row in rows], dtype=float)
    for sample_weight in (None, weight):
        weights = np.ones(len(y)) if sample_weight is None else weight
        ranking = Ranking.of(scores, y, sample_weight)
        if not (weights[y].sum() and weights[~y].sum()):
            assert ranking.auc is None and ranking.average_precision is None
            continue
        assert ranking.auc == pytest.approx(roc_auc_score(y, scores, sample_weight=sample_weight))
        precision = average_precision_score(y, scores, sample_weight=sample_weight)
        assert ranking.average_precision == pytest.approx(precision)
    top = np.argsort(-scores, kind="stable")
    for k in (1, len(y), len(y) + 1):
        at_k = Ranking.of(scores, y).precision_at(k)
        if k > len(y):
            assert at_k is None
            continue
        tied = scores == scores[top[k - 1]]
        above = y[scores > scores[top[k - 1]]]
        assert at_k == pytest.approx((above.sum() + (k - len(above)) * y[tied].mean()) / k)


def test_points_of_the_roc_and_precision_recall_curves() -> None:
    ranking = Ranking.of([3.0, 2.0, 2.0, 1.0], [1, 0, 1, 0])
    fpr, tpr = ranking.roc()
    assert fpr.tolist() == [0, 0, 0.5, 1] and tpr.tolist() == [0, 0.5, 1, 1]
    recall, precision = ranking.precision_recall()
    assert recall.tolist() == [0, 0.5, 1, 1] and precision == pytest.approx([1, 1, 2 / 3, 0.5])


@pytest.mark.parametrize("bad", [{"k": 0}, {"k": True}, {"k": 1.5}])
def test_precision_at_k_refuses_an_invalid_k(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match="k must be an integer >= 1"):
        Ranking.of([1.0, 2.0], [0, 1]).precision_at(bad["k"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one-dimensional, of one length"):
        Ranking.of([1.0, 2.0], [0, 1, 1])


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30), st.floats(1e-6, 1e6))
def test_bins_keep_the_order_and_begin_at_their_edges(values: list[float], scale: float) -> None:
    scores = np.sort(np.array(values))
    bins = bins_of(scores, scale)
    assert (np.diff(bins) >= 0).all() and bins.min() >= 0 and bins.max() < BINS
    low = edges(scale)
    assert (scores >= low[bins] - 1e-9 * np.abs(scores) - 1e-12 * scale).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.5), st.floats(0.0, 3.0))
def test_the_error_of_binned_figures_is_within_its_bound(seed: int, share: float, apart: float) -> None:
    rng = np.random.default_rng(seed)
    y = rng.random(3000) < share
    scores = rng.normal(size=3000) + apart * y + logit(share)
    counts = np.zeros((2, BINS))
    np.add.at(counts, (y.astype(int), bins_of(scores)), 1.0)
    assume(0 < y.sum() < len(y))
    negatives, positives = counts
    true_auc, true_ap = roc_auc_score(y, scores), average_precision_score(y, scores)
    assert abs(auc(positives, negatives) - true_auc) <= auc_within(positives, negatives) + 1e-12
    assert auc_within(positives, negatives) < 0.02
    difference = abs(average_precision(positives, negatives) - true_ap)
    assert difference <= average_precision_within(positives, negatives) + 1e-12


def filled(
    scores: NDArray[np.float64], truth: NDArray[np.intp], task_rows: NDArray[np.intp], log_odds: bool = True
) -> RankingCounts:
    counts = RankingCounts(k=50)
    for part in np.array_split(np.arange(len(truth)), 40):
        counts.add(scores[part], truth[part], task_rows[part], log_odds)
    return counts


@pytest.mark.parametrize("n, classes", [(900, 2), (9000, 2), (900, 4), (9000, 4)])
def test_figures_of_scores_are_exact_or_close_for_any_number_of_scores(n: int, classes: int) -> None:
    """With up to 4,096 scores, the figures overall and per task are exact. With more scores they are close."""
    rng = np.random.default_rng(n + classes)
    truth = rng.choice(classes, size=n, p=[0.9, 0.1] if classes == 2 else [0.7, 0.1, 0.1, 0.1])
    task_rows = rng.integers(0, 3, size=n)
    raw = 1.5 * np.eye(classes)[truth] + rng.normal(size=(n, classes))
    log_odds = raw[:, 1:] if classes == 2 else logit(np.clip(softmax(raw, axis=1), 1e-12, 1 - 1e-12))
    counts = filled(log_odds, truth, task_rows)
    exact = n * log_odds.shape[1] <= ranking_counts.EXACT
    ranking = counts.ranking()
    assert ranking is not None and ranking.exact == exact

    def sklearn(rows: NDArray[np.bool_]) -> tuple[float, float]:
        if classes == 2:
            score = log_odds[rows, 0]
            return roc_auc_score(truth[rows], score), average_precision_score(truth[rows], score)
        shares, one_hot = expit(log_odds[rows]), np.eye(classes)[truth[rows]]
        macro = roc_auc_score(truth[rows], shares / shares.sum(axis=1, keepdims=True), multi_class="ovr")
        return macro, average_precision_score(one_hot, shares, average="macro")

    of_all = counts.overall()
    tolerance = 1e-9 if exact else 0.003
    assert (of_all.auc, of_all.average_precision) == pytest.approx(sklearn(np.ones(n, dtype=bool)), abs=tolerance)
    assert ranking.auc_within is not None and (ranking.auc_within == 0) == exact
    assert ranking.to_dict()["auc"] == of_all.auc
    for row, ranked in enumerate(counts.by_task_row([0, 1, 2])):
        close = 1e-9 if exact else 0.015
        assert (ranked.auc, ranked.average_precision) == pytest.approx(sklearn(task_rows == row), abs=close)


def test_margins_of_any_size_are_ranked() -> None:
    """The margins of learners without probabilities are not log odds, and grow as the learner learns."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=20_000)
    for size in (1e-6, 1.0, 1e6):
        scores = (rng.normal(size=20_000) + y) * np.linspace(1, 20, 20_000) * size
        counts = filled(scores[:, None], y, np.zeros(20_000, dtype=np.intp), log_odds=False)
        assert counts.overall().auc == pytest.approx(roc_auc_score(y, scores), abs=2e-3)


def test_margins_that_are_all_close_to_each_other_are_ranked() -> None:
    """With rare labels, the margins of a learner without probabilities are all close to −1."""
    rng = np.random.default_rng(0)
    positive = rng.random(20_000) < 0.03
    margins = -1.0 + 0.08 * rng.normal(size=20_000) + 0.05 * positive
    counts = RankingCounts(100)
    counts.add(margins[:, None], positive.astype(np.intp), np.zeros(20_000, dtype=np.intp), log_odds=False)
    assert abs(counts.overall().auc - roc_auc_score(positive, margins)) < 0.001


def test_many_tasks_and_classes_stay_within_memory() -> None:
    rng = np.random.default_rng(0)
    counts = RankingCounts(k=10)
    scores, truth = rng.normal(size=(5000, 8)), rng.integers(0, 8, 5000)
    counts.add(scores, truth, np.arange(5000), True)
    assert counts._by_task.nbytes <= 4 * 2**20
    assert counts.by_task_row([1, 4999])[1].auc is None and counts.overall().auc == pytest.approx(0.5, abs=0.03)
    many = RankingCounts(k=10)
    many.add(rng.normal(size=(10, 100)), rng.integers(0, 100, 10), np.zeros(10, dtype=np.intp), True)
    assert many.ranking() is None and many.overall().auc is None


def test_windows_are_ranked_and_add_up() -> None:
    """Windows have 1,500 examples. The first two are ranked from stored scores.

    During the third, the total passes 4,096 scores. It and all later windows are ranked from counts in bins.
    """
    rng = np.random.default_rng(0)
    y = rng.random(12_000) < 0.2
    scores = rng.normal(size=12_000) + y
    counts, total = RankingCounts(k=100), None
    for start in range(0, 12_000, 500):
        part = slice(start, start + 500)
        counts.add(scores[part, None], y[part].astype(np.intp), np.zeros(500, dtype=np.intp), True)
        if (start + 500) % 1500:
            continue
        sums, so_far = counts.close_window()
        window, before = slice(start - 1000, start + 500), slice(0, start + 500)
        assert ranks(sums).auc == pytest.approx(roc_auc_score(y[window], scores[window]), abs=1e-3)
        precision = average_precision_score(y[window], scores[window])
        assert ranks(sums).average_precision == pytest.approx(precision, abs=5e-3)
        assert so_far.auc == pytest.approx(roc_auc_score(y[before], scores[before]), abs=1e-3)
        assert so_far == pytest.approx(counts.overall())
        total = added(total, sums)
    assert ranks(total).auc == pytest.approx(roc_auc_score(y, scores), abs=0.01)
    assert ranks(None).auc is None and added(None, None) is None
    assert RankingCounts(k=10).close_window() == (None, ranks(None))


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
@pytest.mark.parametrize("window", [100, 999])
def test_validation_has_the_figures_of_scikit_learn(labels: list[str], window: int) -> None:
    stream = synthetic.stream(1000, d=5, n_tasks=4, relatedness=0.8, noise=0.2, seed=1).dataset
    names = np.array(labels)
    codes = np.digitize(stream.X[:, 0], [0.8] if len(labels) == 2 else [-0.5, 0.8])
    y = names[codes]
    margins = Budgetron(budget=30).predict_then_learn(stream.X, y, tasks=stream.tasks, classes=labels)
    chance = np.column_stack([expit(-margins), expit(margins)]) if len(labels) == 2 else softmax(margins, axis=1)
    result = evaluate.progressive(Budgetron(budget=30), (stream.X, y, stream.tasks), window=window, k=20)
    overall = result.overall
    assert overall.log_loss == pytest.approx(log_loss(y, chance, labels=labels))
    one_hot = np.eye(len(labels))[codes]
    if len(labels) == 2:
        assert overall.auc == pytest.approx(roc_auc_score(codes, margins))
        assert overall.average_precision == pytest.approx(average_precision_score(codes, margins))
        assert overall.brier == pytest.approx(brier_score_loss(codes, chance[:, 1]))
        assert overall.precision_at_k == pytest.approx(codes[np.argsort(-margins)[:20]].mean())
        for task, row in result.per_task.items():
            of_task = stream.tasks == task
            assert row.auc == pytest.approx(roc_auc_score(codes[of_task], margins[of_task]))
        if window == 100:  # the last window of 999 has only one example, which has no AUC
            assert result.curve[-1].window.auc == pytest.approx(roc_auc_score(codes[900:], margins[900:]))
    else:
        assert overall.auc == pytest.approx(roc_auc_score(codes, chance, multi_class="ovr"))
        assert overall.brier == pytest.approx(((chance - one_hot) ** 2).sum(axis=1).mean())
    assert result.curve[-1].so_far.auc == overall.auc and result.curve[-1].position == 1000
    record = json.loads(json.dumps(result.to_dict()))
    assert record["overall"]["auc"] == overall.auc and record["ranking"]["exact"] and record["k"] == 20


def test_a_rare_label_is_noticed_and_the_ranking_comes_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.where(X[:, 0] + rng.normal(size=2000) > 3, "click", "none")
    result = evaluate.progressive(Budgetron(), (X, y))
    assert result.rare is not None and result.rare[0] == "click" and 0 < result.rare[1] < 0.1
    assert "tasks: AUC " in result.summary() and "are click)" in result.summary()
    even = evaluate.progressive(Budgetron(), (X, np.where(X[:, 0] > 0, "a", "b")))
    assert even.rare is None and even.summary().index("error") < even.summary().index("AUC")


def test_learners_without_probabilities_are_ranked_too() -> None:
    stream = synthetic.stream(600, d=5, n_tasks=2, relatedness=0.8, noise=0.1, seed=1).dataset
    result = evaluate.progressive(Forgetron(20, kernels.Gaussian(gamma=0.2)), stream)
    assert result.overall.auc is not None and result.overall.auc > 0.5 and result.overall.brier is None


def test_ranking_curves_are_plotted_without_warnings() -> None:
    pytest.importorskip("matplotlib")
    stream = synthetic.stream(300, d=5, n_tasks=2, relatedness=0.8, noise=0.1, seed=1).dataset
    result = evaluate.progressive(Budgetron(budget=20), stream, window=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "AUC" in result.plot_roc().get_title()
        assert "average precision" in result.plot_precision_recall().get_title()
        assert result.plot_curve("auc").get_ylabel() == "AUC"
    with pytest.raises(InputError, match="one of error"):
        result.plot_curve("accuracy")
