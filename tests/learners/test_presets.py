"""Presets, and the parameters of the learners that have them."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from budgetron import BudgetSgd, Forgetron, FourierSgd, Projectron, kernels, load
from budgetron.cli import main
from budgetron.engine import native
from budgetron.engine.memory import bytes_of
from budgetron.errors import InputError
from budgetron.learners.registry import learner_class, learner_names

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
PRESETS = [(learner_class(name), preset) for name in learner_names() for preset in learner_class(name).presets]


@pytest.mark.parametrize("kind, preset", PRESETS, ids=[preset for _, preset in PRESETS])
def test_a_preset_is_its_parameters(kind, preset, tmp_path):
    arguments = {"budget": 15, "kernel": kernels.Gaussian(0.5)}
    arguments = {name: value for name, value in arguments.items() if name in kind().get_params(deep=False)}
    model = kind.preset(preset, **arguments)
    parameters = model.get_params(deep=False)
    assert parameters == parameters | kind.presets[preset] | arguments
    model.fit(X, Y).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.get_params(deep=False) == parameters
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))


def test_preset_names_are_distinct_and_lower_case():
    names = [preset for _, preset in PRESETS]
    assert len(set(names)) == len(names) and all(name == name.lower() for name in names)
    with pytest.raises(InputError, match="bpa-s"):
        BudgetSgd.preset("no such preset")


def test_a_learner_without_presets_says_so():
    with pytest.raises(InputError) as raised:
        Forgetron.preset("fast")
    assert str(raised.value) == (
        "Forgetron: there are no presets of this learner; got 'fast'. Create the learner with its parameters: "
        "Forgetron(...)."
    )


def test_the_command_line_takes_presets(tmp_path):
    rows = [f"{a:.3f},{b:.3f},{int(y)}" for (a, b), y in zip(X[:, :2], Y, strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(["a,b,label", *rows]))
    path = tmp_path / "model.budgetron"
    words = ["run", str(tmp_path / "s.csv"), "--learner", "BPA-S", "--budget", "9", "--set", "rate=0.5",
             "--save", str(path)]  # fmt: skip
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    model = load(path)
    assert (model.maintenance, model.step, model.rate, model.budget) == ("replace", "passive-aggressive", 0.5, 9)


REFUSED = [
    (BudgetSgd, {"step": "fast"}, "step"),
    (BudgetSgd, {"maintenance": "burn"}, "maintenance"),
    (BudgetSgd, {"rate": 0.0}, "rate"),
    (BudgetSgd, {"margin": float("nan")}, "margin"),
    (BudgetSgd, {"clip": -1.0}, "clip"),
    (BudgetSgd, {"ridge": "x"}, "ridge"),
    (BudgetSgd, {"rank": 1.5}, "rank"),
    (BudgetSgd, {"regularization": -1.0}, "regularization"),
    (BudgetSgd, {"step": "pegasos"}, "regularization"),
    (BudgetSgd, {"step": "constant", "rate": 2.0, "regularization": 0.5}, "regularization"),
    (BudgetSgd, {"radius": 1.0, "maintenance": "project"}, "radius"),
    (BudgetSgd, {"eta": 1.0}, "eta"),
    (BudgetSgd, {"random_state": "x"}, "random_state"),
    (BudgetSgd, {"maintenance": "merge", "kernel": kernels.Linear()}, "kernel"),
    (Projectron, {"convention": "cubed"}, "convention"),
    (Projectron, {"when_full": "explode"}, "when_full"),
    (Projectron, {"plus": True, "eta": 0.0}, "eta"),
    (FourierSgd, {"rate": -1.0}, "rate"),
    (FourierSgd, {"kernel": kernels.Polynomial()}, "kernel"),
]


@pytest.mark.parametrize("kind, parameters, name", REFUSED)
def test_wrong_parameters_are_refused(kind, parameters, name):
    with pytest.raises(InputError, match=f"{kind.__name__}: {name} must be"):
        kind(**parameters).fit(X, Y)


@pytest.mark.parametrize("budget", [8, "40 KiB"])
@pytest.mark.parametrize("engine", ["core", "numpy"])
def test_merged_sparse_rows_have_the_features_of_both_and_stay_within_the_budget(budget, engine):
    """Every row has at most two of 60 features. A merged row may have more."""
    if engine == "core" and not native.available:
        pytest.skip("built without a compiler")
    rng = np.random.default_rng(3)
    rows = sparse.csr_matrix(np.eye(60)[rng.integers(60, size=400)] + np.eye(60)[rng.integers(60, size=400)])
    model = BudgetSgd.preset("bsgd-merge", budget=budget, kernel=kernels.Gaussian(0.3), engine=engine)
    y = rng.random(400) < 0.5
    model.partial_fit(rows[:10], y[:10])
    for part in (slice(10, 11), slice(11, 200), slice(200, 400)):
        model.partial_fit(rows[part], y[part])
        assert model.n_stored_ <= model.capacity_
        if isinstance(budget, str):
            assert model.memory_bytes_ <= 40 * 1024
    if budget == 8:
        assert max(np.diff(model.active_set_.rows.indptr)) > 2


def test_a_byte_budget_counts_the_rows_that_are_merged():
    wide = np.random.default_rng(0).normal(size=(300, 3000))
    model = BudgetSgd.preset("bsgd-merge", budget="1 MiB", kernel=kernels.Gaussian(1e-3))
    model.fit(wide, wide[:, 0] > 0)
    assert model.memory_bytes_ <= bytes_of(model._engine.settings) <= 2**20


def test_a_random_features_model_is_not_resized():
    with pytest.raises(InputError, match="random features"):
        FourierSgd(budget=10).fit(X, Y).resize(5)


@pytest.mark.parametrize("preset", BudgetSgd.presets)
def test_a_smaller_budget_is_kept_after_a_resize(preset):
    model = BudgetSgd.preset(preset, budget=30, kernel=kernels.Gaussian(0.5)).fit(X, Y)
    model.resize(12)
    assert model.n_stored_ <= 12
    for size in (12, 40):
        model.resize(size)
        model.partial_fit(X, Y)
        assert model.n_stored_ <= size


def test_a_weight_scales_the_step():
    """With a constant step, an example of weight 0.5 gets half of the coefficient. One of weight 0 is not stored."""
    make = lambda: BudgetSgd(step="constant", rate=0.4, kernel=kernels.Gaussian(1.0))  # noqa: E731
    half = make().partial_fit(X[:1], [1], classes=[0, 1], sample_weight=[0.5])
    assert half.active_set_.coef.tolist() == pytest.approx([0.2 / half.graph.c_g**2])
    assert make().partial_fit(X[:1], [1], classes=[0, 1], sample_weight=[0.0]).n_stored_ == 0
