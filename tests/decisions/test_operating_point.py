"""Operating points: thresholds, costs, the guarantee of `max_error` by simulation, and models that have a point."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import beta

import budgetron
from budgetron import Budgetron, Forgetron, OperatingPoint, kernels
from budgetron.decisions import ASK, Costs
from budgetron.decisions.risk_control import CANDIDATES, error_bounds, safe_thresholds
from budgetron.decisions.score_grid import BINS, bins_of
from budgetron.decisions.words import point_words
from budgetron.errors import BudgetronError, InputError, ModelFileError
from budgetron.persist import pack, unpack


def calibrated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = expit(2 * rng.normal(size=n) - 1)
    return p, rng.random(n) < p


# ---- thresholds and costs


def test_a_threshold_is_taken_exactly() -> None:
    point = OperatingPoint(threshold=0.3)
    point.begin(np.array(["ham", "spam"]))
    assert point.decide([0.2999, 0.3, 0.3001]).tolist() == ["ham", "spam", "spam"]
    margin = OperatingPoint(threshold=-2.0, margins=True)
    margin.begin(np.array([0, 1]))
    assert margin.decide([-2.1, -2.0, 5.0]).tolist() == [0, 1, 1]


@pytest.mark.parametrize(("fp", "fn"), [(1, 1), (1, 20), (5, 1)])
def test_costs_find_the_threshold_of_calibrated_probabilities(fp: float, fn: float) -> None:
    p, y = calibrated(40_000)
    point = OperatingPoint(costs={"fp": fp, "fn": fn}).update(p, y)
    best = fp / (fp + fn)
    assert point.low == point.high and abs(point.high - best) < 0.05
    decided = point.decide(p) == True  # noqa: E712
    cost = (fp * (decided & ~y).sum() + fn * (~decided & y).sum()) / len(y)
    ideal = (fp * ((p >= best) & ~y).sum() + fn * ((p < best) & y).sum()) / len(y)
    assert point.expected_cost == pytest.approx(cost) and cost <= ideal * 1.02
    so_far = point.to_dict()["so_far"]
    assert so_far["cost"] == pytest.approx(cost, rel=0.1) and so_far["decided"] == len(y)
    never, always = point.constant_costs()
    assert cost < min(never, always)


def test_asking_pays_between_two_thresholds() -> None:
    p, y = calibrated(40_000)
    point = OperatingPoint(costs={"fp": 1, "fn": 1, "ask": 0.2}).update(p, y)
    assert abs(point.low - 0.2) < 0.04 and abs(point.high - 0.8) < 0.04
    decided = point.decide([0.1, 0.5, 0.9]).tolist()
    assert decided == [False, None, True]
    assert point.expected_asked == pytest.approx(((p >= point.low) & (p < point.high)).mean(), abs=0.01)
    costly = OperatingPoint(costs={"fp": 1, "fn": 1, "ask": 0.6}).update(p, y)
    assert costly.low == costly.high and costly.expected_asked == 0


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=1, max_size=60),
    st.floats(0.1, 10), st.floats(0.1, 10), st.none() | st.floats(0, 5),
)  # fmt: skip
def test_the_chosen_thresholds_have_the_lowest_cost(rows: list, fp: float, fn: float, ask: float | None) -> None:
    bins, y = bins_of(np.array([row[0] for row in rows])), np.array([row[1] for row in rows])
    counts = np.zeros((2, BINS), dtype=np.int64)
    np.add.at(counts, (y.astype(int), bins), 1)

    def cost(low: int, high: int) -> float:
        asked = (bins >= low) & (bins < high)
        return fp * (~y & (bins >= high)).sum() + fn * (y & (bins < low)).sum() + (ask or 0) * asked.sum()

    low, high = Costs(fp, fn, ask).cheapest(counts[0], counts[1])
    assert low <= high and (ask is not None or low == high)
    cuts = sorted({0, BINS, *bins.tolist(), *(bins + 1).tolist()})
    pairs = [(a, b) for a in cuts for b in cuts if a <= b and (ask is not None or a == b)]
    assert cost(low, high) <= min(cost(a, b) for a, b in pairs) + 1e-9


@pytest.mark.parametrize(("fp", "fn", "surprise"), [(1000, 1, 1e4), (1, 1000, -1e4)])
def test_a_threshold_beyond_all_margins_is_finite(fp: int, fn: int, surprise: float) -> None:
    """The margins farthest from 0 have the wrong sign, and errors there cost much, so one label is always decided."""
    margins = np.linspace(-1, 1, 3000)
    point = OperatingPoint(costs={"fp": fp, "fn": fn}, margins=True).update(margins, margins > 0)
    point.update(np.full(300, surprise), np.full(300, surprise < 0))
    assert (point.decide(np.append(margins, surprise)) == (surprise < 0)).all()
    json.dumps(point.to_dict(), allow_nan=False)


def test_with_few_labels_the_thresholds_are_those_of_calibrated_probabilities() -> None:
    point = OperatingPoint(costs={"fp": 1, "fn": 19})
    point.begin(np.array([0, 1]))
    assert point.high == pytest.approx(0.05, abs=0.004) and point.expected_cost is None
    assert point.decide([0.02, 0.9]).tolist() == [0, 1]


# ---- the guarantee


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    wrong, n = np.array([0, 3, 10, 5]), np.array([0, 10, 10, 400])
    expected = [1.0, beta.ppf(0.99, 4, 7), 1.0, beta.ppf(0.99, 6, 395)]
    assert error_bounds(wrong, n, 0.01) == pytest.approx(expected)
    right = np.zeros(BINS, dtype=np.int64)
    right[600] = 10_000
    assert safe_thresholds(right, right * 0, 0.01, 0.01).tolist() == CANDIDATES[CANDIDATES <= 600].tolist()
    assert safe_thresholds(right * 0, right, 0.01, 0.01).size == 0


def true_error(low: float | None, high: float | None, p: np.ndarray) -> float:
    """Return the larger of the two labels' shares of wrong decisions, for calibrated probabilities."""
    below = p < low if low is not None else np.zeros(len(p), dtype=bool)
    above = p >= high if high is not None else np.zeros(len(p), dtype=bool)
    return max(p[below].mean() if below.any() else 0.0, (1 - p[above]).mean() if above.any() else 0.0)


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_the_guarantee_holds_in_as_many_calibrations_as_it_says(shift: float) -> None:
    """In at most 1 − confidence of 400 calibrations, decisions for a label are wrong more often than max_error."""
    rng = np.random.default_rng(1)
    population = expit(2 * rng.normal(size=200_000) + shift)
    n_violations, decided = 0, []
    for _ in range(400):
        p = expit(2 * rng.normal(size=1500) + shift)
        point = OperatingPoint(max_error=0.1, confidence=0.8).update(p, rng.random(1500) < p)
        n_violations += true_error(point.low, point.high, population) > 0.1
        decided.append(1 - point.expected_asked)
    assert n_violations <= 0.2 * 400  # the union bound is conservative, so there should be far fewer
    assert np.mean(decided) > 0.1  # a point that always asks would meet the guarantee trivially


def test_several_labels_are_decided_where_it_is_safe() -> None:
    rng = np.random.default_rng(0)
    shares = softmax(2.5 * rng.normal(size=(20_000, 3)), axis=1)
    y = np.array([rng.choice(3, p=row) for row in shares])
    point = OperatingPoint(max_error=0.15).update(shares[:10_000], y[:10_000])
    decided = point.decide(shares[10_000:])
    asked = np.array([decision is None for decision in decided])
    for label in range(3):
        of_label = decided == label
        assert of_label.sum() > 500 and (y[10_000:][of_label] != label).mean() < 0.15
    assert asked.mean() == pytest.approx(point.expected_asked, abs=0.03)
    assert point.to_dict()["cuts"] is not None and point.low is None


def test_an_operating_point_without_enough_examples_abstains() -> None:
    point = OperatingPoint(max_error=0.01)
    point.begin(np.array([0, 1]))
    assert point.decide([0.001, 0.999]).tolist() == [None, None]
    margins = OperatingPoint(max_error=0.01, margins=True)
    margins.begin(np.array([0, 1]))
    assert margins.decide([-9.0, 9.0]).tolist() == [None, None]


# ---- counts


@pytest.mark.parametrize("settings", [{"costs": {"fp": 1, "fn": 5, "ask": 0.3}}, {"max_error": 0.1, "threshold": 0.4}])
@pytest.mark.parametrize("margins", [False, True])
def test_block_sizes_do_not_change_the_counts(settings: dict, margins: bool) -> None:
    p, y = calibrated(3000)
    scores = np.log(p / (1 - p)) * 30 if margins else p
    whole = OperatingPoint(**settings, margins=margins).update(scores, y)
    pieces = OperatingPoint(**settings, margins=margins)
    pieces.begin(np.array([False, True]))
    for part in np.split(np.arange(3000), [1, 2, 300, 301, 1777]):
        pieces.update(scores[part], y[part])
    assert whole.to_dict() == pieces.to_dict() and (whole.counts == pieces.counts).all()
    assert whole.n == (3000 - 256 if margins else 3000)  # the first 256 margins determine the scale of the grid


def test_other_settings_are_chosen_from_the_same_counts() -> None:
    p, y = calibrated(5000)
    point = OperatingPoint(costs={"fp": 1, "fn": 1}).update(p, y)
    changed = point.changed(costs={"fp": 1, "fn": 20})
    assert changed.high < 0.1 < point.high and changed.n == point.n
    assert point.fresh().n == 0 and point.fresh().costs == point.costs


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({}, "threshold, costs or max_error must be given"),
        ({"threshold": 0.5, "costs": {"fp": 1, "fn": 1}}, "one at a time"),
        ({"threshold": 1.0}, "threshold must be a number above 0 and below 1"),
        ({"threshold": "0.5"}, "threshold"),
        ({"max_error": 0}, "max_error"),
        ({"max_error": 0.1, "confidence": 1}, "confidence"),
        ({"costs": {"fp": 1}}, "costs of fp and fn"),
        ({"costs": {"fp": 1, "fn": -1}}, "costs of fp and fn"),
        ({"costs": {"fp": 1, "fn": 1, "tp": 0}}, "costs of fp and fn"),
        ({"costs": {"fp": 0, "fn": 1}}, "costs of fp and fn"),
        ({"costs": [1, 2]}, "a dict such as"),
    ],
)
def test_invalid_settings_of_an_operating_point_are_refused(settings: dict, match: str) -> None:
    with pytest.raises(BudgetronError, match=match):
        OperatingPoint(**settings)


def test_invalid_scores_and_labels_are_refused_and_change_nothing() -> None:
    point = OperatingPoint(threshold=0.5)
    with pytest.raises(InputError, match="nothing was counted"):
        point.decide([0.5])
    with pytest.raises(InputError, match="all labels in the first call"):
        point.update([0.5], [1])
    point.update([0.2, 0.8], [0, 1])
    wrong = [([0.5, 2.0], [0, 1], "from 0 to 1; got 2.0"), ([0.5], [7], "one of"), ([0.5], [0, 1], "one length")]
    for scores, y, match in wrong:
        with pytest.raises(InputError, match=match):
            point.update(scores, y)
    with pytest.raises(InputError, match="two labels"):
        OperatingPoint(costs={"fp": 1, "fn": 1}).begin(np.array([0, 1, 2]))
    assert point.n == 2


@pytest.mark.parametrize(
    ("margins", "n_labels", "shape", "accepted"),
    [
        (True, 2, (400, 2), r"of shape \(n,\) for the margins of 2 labels; got shape \(400, 2\)"),
        (True, 2, (400, 1), r"of shape \(n,\) for the margins of 2 labels; got shape \(400, 1\)"),
        (False, 2, (400, 1), r"of shape \(n,\) or \(n, 2\) for the probabilities of 2 labels; got shape \(400, 1\)"),
        (False, 2, (400, 3), r"of shape \(n,\) or \(n, 2\) for the probabilities of 2 labels; got shape \(400, 3\)"),
        (True, 3, (400,), r"of shape \(n, 3\) for the margins of 3 labels; got shape \(400,\)"),
        (True, 3, (400, 2), r"of shape \(n, 3\) for the margins of 3 labels; got shape \(400, 2\)"),
        (False, 3, (400,), r"of shape \(n, 3\) for the probabilities of 3 labels; got shape \(400,\)"),
    ],
)
def test_scores_of_another_shape_are_refused_and_change_nothing(margins, n_labels, shape, accepted) -> None:
    scores, y = np.random.default_rng(0).random(shape), np.arange(400) % n_labels
    point = OperatingPoint(max_error=0.1, margins=margins)
    point.begin(np.arange(n_labels))
    before = copy.deepcopy(vars(point))
    with pytest.raises(InputError, match=accepted):
        point.update(scores, y)
    np.testing.assert_equal(vars(point), before)
    with pytest.raises(InputError, match=accepted):
        point.decide(scores)


@pytest.mark.parametrize(("margins", "scores"), [(True, np.zeros((2, 2))), (False, np.array([0.5, 2.0]))])
def test_a_refused_first_call_sets_no_labels(margins: bool, scores: np.ndarray) -> None:
    point = OperatingPoint(threshold=0.5, margins=margins)
    with pytest.raises(InputError, match="scores must be"):
        point.update(scores, ["ham", "spam"])
    assert point.labels is None


def test_margins_that_are_not_numbers_are_refused_and_change_nothing() -> None:
    point = OperatingPoint(threshold=0.5, margins=True)
    point.begin(np.array([0, 1]))
    before = copy.deepcopy(vars(point))
    with pytest.raises(InputError, match="scores must be numbers; got nan"):
        point.update([np.nan] * 400, [0, 1] * 200)
    np.testing.assert_equal(vars(point), before)
    with pytest.raises(InputError, match="scores must be numbers; got nan"):
        point.decide([np.nan])


# ---- models with an operating point


def stream(n: int = 2500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 1.5, "yes", "no")


@pytest.mark.parametrize("model", [Budgetron(budget=20), Forgetron(30, kernels.Gaussian(0.3))], ids=["odds", "margins"])
def test_a_saved_model_continues_to_count(model, tmp_path: Path) -> None:
    X, y = stream()
    model = copy.deepcopy(model)
    model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 4})
    model.partial_fit(X[:1500], y[:1500]).save(tmp_path / "m.budgetron")
    loaded = budgetron.load(tmp_path / "m.budgetron")
    assert loaded.operating_point.to_dict() == model.operating_point.to_dict()
    assert loaded.operating_point.log_odds == hasattr(model, "predict_proba")
    for learner in (model, loaded):
        for start in range(1500, 2500, 333):
            learner.partial_fit(X[start : start + 333], y[start : start + 333])
    assert loaded.operating_point.to_dict() == model.operating_point.to_dict()
    assert model.operating_point.n == 2500 - (0 if model.operating_point.log_odds else 256)
    decided = model.decide(X[:50])
    assert set(decided) <= {"yes", "no"} and [model.decide_one(x) for x in X[:50]] == decided.tolist()


def test_single_examples_are_counted_as_blocks_are() -> None:
    X, y = stream(300)
    models = []
    for _ in range(2):
        models.append(Budgetron(budget=20))
        models[-1].operating_point = OperatingPoint(max_error=0.2)
        models[-1].partial_fit(X[:50], y[:50])
    models[0].partial_fit(X[50:], y[50:])
    for x, label in zip(X[50:], y[50:], strict=True):
        models[1].learn_one(x, label)
    first, second = (model.operating_point for model in models)
    assert (first.counts == second.counts).all() and first.cuts == second.cuts


def test_fit_resets_the_counts_and_a_failed_call_changes_nothing() -> None:
    X, y = stream(500)
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(threshold=0.3)
    model.fit(X, y).fit(X, y)
    assert model.operating_point.n == 500 and model.operating_point.threshold == 0.3
    before = model.operating_point.to_dict()
    with pytest.raises(InputError):
        model.partial_fit(np.full((1, 3), np.nan), ["yes"])
    assert model.operating_point.to_dict() == before
    with pytest.raises(BudgetronError, match="an OperatingPoint or None"):
        model.operating_point = 0.5
    with pytest.raises(InputError, match="decide needs an operating point"):
        Budgetron().fit(X, y).decide(X)


def test_a_point_of_other_labels_or_scores_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    p, y = calibrated(300)
    counted = OperatingPoint(max_error=0.1).update(p, np.where(y, "b", "a"))
    X, yes_no = stream(300)
    with pytest.raises(InputError, match=r"one that counts margins.*one that counts probabilities.*point\.fresh"):
        Forgetron(30).operating_point = counted
    for labels in (yes_no, (yes_no == "yes").astype(int), np.resize(["a", "b", "c"], 300)):
        model = Budgetron(budget=20)
        model.operating_point = counted
        with pytest.raises(InputError, match=r"one for \['a', 'b'\]"):
            model.partial_fit(X, labels)
        assert not hasattr(model, "n_seen_") and model.operating_point.n == 300
        model.operating_point = None
        with pytest.raises(InputError, match=r"one for \['a', 'b'\]"):
            model.partial_fit(X, labels).operating_point = counted
        assert model.operating_point is None
    model = Budgetron(budget=20)
    model.operating_point = counted
    model.partial_fit(X, np.where(yes_no == "yes", "b", "a")).save(tmp_path / "m")
    assert budgetron.load(tmp_path / "m").operating_point.n == 600


def test_a_point_waits_for_a_negative_label_that_is_not_known_yet() -> None:
    X, _ = stream(100)
    y = np.resize([-1, 1], 100)
    counted = OperatingPoint(max_error=0.1).update(np.linspace(0, 1, 100), y)
    model = Budgetron(budget=20).partial_fit(X[:2], [1, 1])  # the negative label may be 0 or -1
    with pytest.raises(InputError, match="one for"):
        model.operating_point = OperatingPoint(max_error=0.1).update([0.1, 0.9], [1, 2])
    model.operating_point = counted
    with pytest.raises(InputError, match="one for the labels"):
        model.partial_fit(X, np.maximum(y, 0))
    assert model.n_seen_ == 2 and model.partial_fit(X, y).operating_point.n == 200
    # A decision before the negative label is known does not fix the labels of the point.
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(max_error=0.1)
    assert set(model.partial_fit(X[:2], [1, 1]).decide(X)) == {None}
    assert model.partial_fit(X, y).operating_point.labels.tolist() == [-1, 1]


def test_two_models_do_not_share_the_counts_of_a_point() -> None:
    X, y = stream(300)
    counted = OperatingPoint(max_error=0.1).update(np.linspace(0, 1, 300), y)
    models = [Budgetron(budget=20), Budgetron(budget=20)]
    for model in models:
        model.operating_point = counted
    models[0].partial_fit(X, y)
    assert [point.n for point in (counted, *(model.operating_point for model in models))] == [300, 600, 300]


def test_a_model_of_several_classes_decides_or_abstains() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(max_error=0.2)
    model.partial_fit(X, y)
    decided = model.decide(X)
    is_decided = np.array([decision is not None for decision in decided])
    assert is_decided.mean() > 0.4 and (decided[is_decided] != y[is_decided]).mean() < 0.2
    with pytest.raises(InputError, match="two labels"):
        wrong = Budgetron(budget=20)
        wrong.operating_point = OperatingPoint(threshold=0.5)
        wrong.partial_fit(X, y)
    assert not hasattr(wrong, "n_seen_")  # nothing was learned


@pytest.mark.parametrize("damage", ["cuts", "negative", "shape", "threshold", "missing", "scale"])
def test_damaged_operating_points_are_refused(tmp_path: Path, damage: str) -> None:
    X, y = stream(200)
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 4})
    model.partial_fit(X, y).save(tmp_path / "m")
    text, arrays = unpack((tmp_path / "m").read_bytes())
    record = json.loads(text)
    if damage == "cuts":
        record["point"]["cuts"] = [600, 500]
    elif damage == "negative":
        arrays["decisions.counts"][0, 0, 0] = -1
    elif damage == "shape":
        arrays["decisions.decided"] = arrays["decisions.decided"][:1]
    elif damage == "threshold":
        record["point"]["threshold"] = 0.5
    elif damage == "missing":
        del arrays["decisions.counts"]
    else:
        record["point"]["scale"] = 2.0
    (tmp_path / "m").write_bytes(pack(json.dumps(record).encode(), arrays))
    with pytest.raises(ModelFileError):
        budgetron.load(tmp_path / "m")


def test_the_code_for_asking_is_minus_one() -> None:
    assert ASK == -1


@pytest.mark.parametrize(
    ("costs", "says"), [({"fp": 1000, "fn": 1}, "always False"), ({"fp": 1, "fn": 1000}, "always True")]
)
def test_a_point_that_never_asks_does_not_say_that_it_asks(costs: dict, says: str) -> None:
    p = np.tile([0.0, 1.0], 200)
    y = np.repeat([False, True], 200)  # half of the certain predictions are wrong
    point = OperatingPoint(costs=costs).update(p, y)
    assert dict(point_words(point))["decides"] == says and point.expected_asked == 0


def test_a_threshold_beyond_all_bins_is_described_as_given() -> None:
    point = OperatingPoint(threshold=1e60, margins=True)
    point.begin(np.array([False, True]))
    point.count(np.linspace(-1, 1, 500), np.tile([0, 1], 250))
    assert dict(point_words(point))["decides"] == "True if its margin is at least 1e+60, otherwise False"
