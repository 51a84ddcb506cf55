"""Synthetic streams have the properties that were requested, measured on the stream itself where possible."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import data, graphs
from budgetron.data.synthetic import Shift, stream
from budgetron.errors import InputError

FORMS = {"linear": 60, "xor": 120, "gaussian": 10, "text": 400}  # form → columns, enough for exact relatedness


def dense(X) -> np.ndarray:
    return X if isinstance(X, np.ndarray) else X.toarray()


def fitted_error(X: np.ndarray, y: np.ndarray) -> float:
    """The error of least squares on the second half of the rows, when fitted on the first half."""
    half = len(y) // 2
    X = np.column_stack([X, np.ones(len(y))])
    weights, *_ = np.linalg.lstsq(X[:half], 2.0 * y[:half] - 1, rcond=None)
    return float(((X[half:] @ weights > 0) != y[half:]).mean())


def off_diagonal(cosines: np.ndarray) -> np.ndarray:
    return cosines[~np.eye(len(cosines), dtype=bool)]


@pytest.mark.parametrize("form", FORMS)
def test_equal_arguments_give_equal_streams_and_other_seeds_others(form: str) -> None:
    first, two, other = (stream(300, d=FORMS[form], form=form, noise=0.2, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(dense(first.dataset.X), dense(two.dataset.X))
    assert np.array_equal(first.dataset.y, two.dataset.y) and np.array_equal(
        first.dataset.tasks, two.dataset.tasks
    )
    assert np.array_equal(first.answer.scores, two.answer.scores)
    assert not np.array_equal(dense(first.dataset.X), dense(other.dataset.X))


def test_the_recorded_source_generates_the_stream_again() -> None:
    dataset, _ = stream(50, d=6, noise=0.1, shift=Shift.gradual(alike=False), seed=4)
    assert dataset.source.startswith("budgetron.data.synthetic.stream(n=50")
    call = dataset.source.removeprefix("budgetron.data.synthetic.")
    again = eval(call, {"stream": stream, "Shift": Shift})
    assert np.array_equal(again.dataset.X, dataset.X) and np.array_equal(again.dataset.y, dataset.y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relatedness", [0.0, 0.3, 1.0])
def test_relatedness_is_exact_with_enough_features(form: str, relatedness: float) -> None:
    _, answer = stream(100, d=FORMS[form], n_tasks=6, form=form, relatedness=relatedness)
    cosines = answer.relatedness(0)
    assert np.allclose(np.diag(cosines), 1) and np.allclose(off_diagonal(cosines), relatedness)


def test_relatedness_is_right_on_average_with_many_tasks() -> None:
    _, answer = stream(10, d=40, n_tasks=800, relatedness=0.6)
    cosines = off_diagonal(answer.relatedness(0))
    assert abs(cosines.mean() - 0.6) < 0.05 and cosines.std() > 0.01  # too few features to be exact


def test_relatedness_determines_how_often_labels_agree() -> None:
    """Two half-spaces at angle θ disagree on a share θ/π of Gaussian instances."""
    for relatedness in (0.2, 0.9):
        dataset, answer = stream(20000, d=30, n_tasks=2, relatedness=relatedness)
        by_other_task = np.einsum("ij,ij->i", dataset.X, answer.start[1 - dataset.tasks]) > 0
        assert abs((by_other_task != dataset.y).mean() - np.arccos(relatedness) / np.pi) < 0.01


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", [0.0, 0.15, 0.5])
def test_noise_is_the_error_of_the_known_answer(form: str, noise: float) -> None:
    dataset, answer = stream(20000, d=FORMS[form], form=form, noise=noise, words=8, seed=1)
    wrong = (answer.labels != dataset.y).mean()
    assert abs(wrong - noise) <= 4 * np.sqrt(noise * (1 - noise) / 20000)  # four standard deviations
    # A positive label is right with probability 1 − noise. The answer gives it the probability 1 − noise if it is
    # right, and noise if it is wrong.
    assert abs(answer.probabilities[dataset.y == 1].mean() - (1 - noise) ** 2 - noise**2) < 0.02


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_products_of_weights_and_features(form: str) -> None:
    dataset, answer = stream(200, d=FORMS[form], form=form, shift=Shift.gradual(), seed=2)
    lifted = dense(answer.features(dataset.X))
    for t in (0, 77, 199):
        assert np.isclose(answer.weights(t)[dataset.tasks[t]] @ lifted[t], answer.scores[t])


@pytest.mark.parametrize("form", FORMS)
def test_the_classes_are_balanced(form: str) -> None:
    rates = [
        stream(4000, d=FORMS[form], n_tasks=1, form=form, seed=seed).dataset.y.mean() for seed in range(5)
    ]
    assert abs(np.mean(rates) - 0.5) < 0.05 and max(abs(np.array(rates) - 0.5)) < 0.15


def test_xor_is_not_linear_in_x_but_linear_in_its_features() -> None:
    dataset, answer = stream(8000, d=10, n_tasks=1, form="xor", noise=0.05)
    assert fitted_error(dataset.X, dataset.y) > 0.45
    assert fitted_error(answer.features(dataset.X), dataset.y) < 0.10


def test_gaussian_form_is_a_function_of_the_gaussian_kernel() -> None:
    dataset, answer = stream(400, d=5, n_tasks=1, form="gaussian")
    lifted = answer.features(dataset.X)
    between = ((dataset.X[:, None] - dataset.X[None]) ** 2).sum(axis=2)
    # Centre both matrices, because the random features are centred. The finite number of features limits the agreement.
    centred = np.eye(400) - 1 / 400
    projected = centred @ (lifted @ lifted.T / lifted.shape[1]) @ centred
    assert np.abs(projected - centred @ np.exp(-between / 5) @ centred).mean() < 0.05
    assert abs(lifted.mean()) < 0.02


def test_text_has_zipf_words_and_the_requested_length() -> None:
    dataset, _ = stream(5000, d=1000, form="text", words=30)
    X = dataset.X
    assert X.format == "csr" and X.has_canonical_format and (X.data == np.round(X.data)).all()
    assert abs(X.sum(axis=1).mean() - 30) < 0.5 and X.sum(axis=1).min() >= 1
    share = np.asarray(X.sum(axis=0)).ravel() / X.sum()
    harmonic = (1 / np.arange(1, 1001)).sum()
    for rank in (1, 2, 10):
        assert abs(share[rank - 1] * rank * harmonic - 1) < 0.1


def test_labels_of_text_stay_the_same_after_unit_norm() -> None:
    dataset, answer = stream(500, d=300, form="text")
    scaled = data.unit_norm(dataset.X).toarray()
    assert np.array_equal((scaled * answer.start[dataset.tasks]).sum(axis=1) > 0, answer.scores > 0)


def test_task_skew_sets_how_often_each_task_occurs() -> None:
    uniform = np.bincount(stream(20000, n_tasks=4).dataset.tasks) / 20000
    assert np.allclose(uniform, 0.25, atol=0.015)
    skewed = np.bincount(stream(20000, n_tasks=4, task_skew=1.0).dataset.tasks) / 20000
    assert np.allclose(skewed, np.array([12, 6, 4, 3]) / 25, atol=0.015)


class TestShift:
    def test_without_a_shift_the_weights_are_constant(self) -> None:
        dataset, answer = stream(100)
        assert np.array_equal(answer.weights(0), answer.weights(99)) and not dataset.time_ordered

    def test_an_abrupt_shift_happens_at_its_position_only(self) -> None:
        dataset, answer = stream(1000, shift=Shift.abrupt(at=0.3, angle=180))
        assert dataset.time_ordered
        assert np.array_equal(answer.weights(299), answer.weights(0))
        assert np.array_equal(answer.weights(300), answer.weights(999))
        # After a shift by 180 degrees, every label is the opposite of what the old weights give.
        old = np.einsum("ij,ij->i", dataset.X, answer.weights(0)[dataset.tasks]) > 0
        assert np.array_equal(old, (dataset.y == 1) ^ (np.arange(1000) >= 300))

    def test_a_gradual_shift_is_linear_between_its_positions(self) -> None:
        angles = Shift.gradual(begin=0.2, end=0.7, angle=60).angles(1000)
        assert (angles[:201] == 0).all() and np.allclose(angles[700:], np.pi / 3)
        steps = np.diff(angles)[200:700]
        assert np.allclose(steps, np.pi / 3 / 500)

    @pytest.mark.parametrize("alike", [True, False])
    def test_each_task_moves_by_the_angle(self, alike: bool) -> None:
        _, answer = stream(100, d=50, n_tasks=5, shift=Shift.abrupt(angle=40, alike=alike))
        cosines = np.einsum("ij,ij->i", answer.weights(0), answer.weights(99))
        assert np.allclose(np.rad2deg(np.arccos(cosines)), 40)

    def test_equal_rotations_keep_tasks_related_and_different_ones_do_not(self) -> None:
        end = {
            alike: stream(
                100, d=50, n_tasks=5, relatedness=0.8, shift=Shift.abrupt(angle=40, alike=alike)
            ).answer
            for alike in (True, False)
        }
        assert np.allclose(off_diagonal(end[True].relatedness(99)), 0.8)
        assert np.allclose(off_diagonal(end[False].relatedness(99)), 0.8 * np.cos(np.deg2rad(40)) ** 2)

    @pytest.mark.parametrize(
        "wrong", [{"begin": -0.1}, {"begin": 0.8, "end": 0.2}, {"end": 1.1}, {"angle": 0}, {"angle": 181}]
    )
    def test_impossible_shifts_are_rejected(self, wrong: dict[str, float]) -> None:
        with pytest.raises(InputError, match="Shift: "):
            Shift(**wrong)  # type: ignore[arg-type]


class TestGraph:
    def test_cosines_are_those_of_the_graph(self) -> None:
        graph = graphs.from_edges([("ann", "bob"), ("bob", "cid")], tasks=["dan"])
        dataset, answer = stream(400, d=30, graph=graph)
        laplacian = np.array([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 1, 0], [0, 0, 0, 0]])
        inverse = np.linalg.inv(np.eye(4) + laplacian)
        scale = np.sqrt(np.diag(inverse))
        order = [list(graph.tasks).index(name) for name in ("ann", "bob", "cid", "dan")]
        assert np.allclose(answer.relatedness(0)[np.ix_(order, order)], inverse / np.outer(scale, scale))
        assert set(dataset.tasks) == {"ann", "bob", "cid", "dan"}
        for t in range(0, 400, 57):
            weights = answer.weights(t)[list(graph.tasks).index(dataset.tasks[t])]
            assert np.isclose(weights @ dataset.X[t], answer.scores[t])

    def test_the_complete_graph_gives_relatedness_one_half(self) -> None:
        dataset, answer = stream(400, d=30, n_tasks=6, graph=graphs.complete())
        assert dataset.k == 6 and np.allclose(off_diagonal(answer.relatedness(0)), 0.5)

    def test_a_task_with_similarity_0_to_itself_is_rejected(self) -> None:
        laplacian = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
        with pytest.raises(InputError, match=r"graph must be .* > 0 for every task i; got 0 for task 2"):
            stream(10, graph=graphs.from_laplacian(laplacian, identity=False))

    def test_an_explicit_graph_determines_the_number_of_tasks(self) -> None:
        with pytest.raises(InputError, match="n_tasks must be 2, the number of tasks in the graph; got 5"):
            stream(10, n_tasks=5, graph=graphs.from_edges([("ann", "bob")]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 0),
        ("d", 0),
        ("d", 2.5),
        ("n_tasks", 0),
        ("words", 0),
        ("relatedness", 1.2),
        ("relatedness", float("nan")),
        ("noise", 0.6),
        ("noise", -0.1),
        ("form", "cubic"),
        ("task_skew", -1.0),
        ("task_skew", float("inf")),
    ],
)
def test_impossible_arguments_are_rejected_by_name(name: str, value: object) -> None:
    arguments = {"n": 10, name: value}
    with pytest.raises(InputError, match=rf"synthetic\.stream: {name} must be .*; got "):
        stream(**arguments)  # type: ignore[arg-type]
