"""Displays of a model: plots by matplotlib, and a table in a notebook."""

from __future__ import annotations

import itertools
import subprocess
import sys

import makers
import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetron import BudgetProjectron, Budgetron, Perceptron, evaluate, graphs, kernels
from budgetron.errors import InputError

pyplot = pytest.importorskip("matplotlib.pyplot", reason="the extra `plot` is not installed")

RNG = np.random.default_rng(3)
N = 300
X = RNG.normal(size=(N, 3))
TASKS = [f"<b>user$^$ {task}" for task in RNG.integers(6, size=N)]
Y = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int)


@pytest.fixture(autouse=True)
def _closed():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def fitted(learner, **parameters):
    return makers.made(learner, kernel=kernels.Gaussian(0.2), **parameters).partial_fit(X, Y, tasks=TASKS)


def test_plot_budget_share_has_one_bar_per_task(learner):
    model = fitted(learner)
    if model.capacity_ == 0:
        pytest.skip("this learner stores no examples")
    ax = model.plot_budget_share()
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([100 * share for share in model.budget_share_.values()])
    top_2 = model.plot_budget_share(top=2)
    assert sum(bar.get_width() for bar in top_2.patches) == pytest.approx(100)
    assert [label.get_text() for label in top_2.get_yticklabels()][-1] == "4 others"
    ax.figure.canvas.draw()  # fails if matplotlib takes "$^$" in a name for a formula
    axes = pyplot.subplots()[1]
    assert model.plot_budget_share(ax=axes) is axes
    with pytest.raises(InputError, match="top"):
        model.plot_budget_share(top=0)


def test_plot_beliefs_has_one_bar_per_belief():
    model = fitted(Budgetron)
    ax = model.plot_beliefs()
    assert [bar.get_width() for bar in ax.patches] == sorted((weight for _, weight in model.beliefs_), reverse=True)
    assert ax.get_yticklabels()[0].get_text() == max(model.beliefs_, key=lambda pair: pair[1])[0].words


def test_the_similarity_plot_shows_the_graph():
    names = sorted(set(TASKS))
    model = fitted(BudgetProjectron, graph=graphs.from_edges(list(itertools.pairwise(names))))
    plotted = model.plot_similarity(names).images[0].get_array()
    expected = graphs.similarity_matrix(model.graph, names)
    scale = np.sqrt(np.diag(expected))
    assert np.allclose(plotted, expected / np.outer(scale, scale)) and plotted[0, 1] > plotted[0, 5] > 0
    opposed = graphs.from_similarity(np.array([[1.0, -0.5], [-0.5, 1.0]]), tasks=["a", "b"])
    other = BudgetProjectron(graph=opposed).partial_fit(X[:2], Y[:2], tasks=["a", "b"], classes=[0, 1])
    assert other.plot_similarity(["a", "b"]).images[0].get_array()[0, 1] == -0.5
    with pytest.raises(InputError, match="tasks"):
        model.plot_similarity([])


def test_plots_of_a_validation_show_its_figures():
    result = evaluate.progressive(Budgetron(budget=20), (X, Y, TASKS), window=50)
    windows, so_far = result.plot_curve().lines
    assert windows.get_xdata().tolist() == [50, 100, 150, 200, 250, 300]
    assert so_far.get_ydata()[-1] == pytest.approx(100 * result.overall.error)
    assert result.plot_curve("log_loss").lines[1].get_ydata()[-1] == pytest.approx(result.overall.log_loss)
    calibration = result.plot_calibration()
    assert calibration.lines[1].get_xdata().tolist() == [each["predicted"] for each in result.calibration.bins()]
    tasks = result.plot_tasks(top=3)
    assert [bar.get_width() for bar in tasks.patches] == [100 * row.error for _, row in result.worst_first()[:3]]
    tasks.figure.canvas.draw()
    with pytest.raises(InputError, match="figure"):
        result.plot_curve("accuracy")
    plain = evaluate.progressive(Perceptron(), (X, Y, TASKS))
    with pytest.raises(InputError, match="probabilities"):
        plain.plot_calibration()
    with pytest.raises(InputError, match="log_loss"):
        plain.plot_curve("log_loss")


def test_a_notebook_shows_what_was_learned(learner):
    assert "examples seen" not in learner()._repr_html_()
    model = fitted(learner)
    page = model._repr_html_()
    stores = model.capacity_ != 0
    values = [f"{model.n_seen_:,}", f"{model.n_mistakes_:,} ({model.n_mistakes_ / N:.1%})"]
    for value in values + [f"{model.n_stored_}"] * stores:
        assert f">{value}" in page, value
    assert "<b>user" not in page and ("&lt;b&gt;user" in page) == stores
    assert "examples seen" in model._repr_mimebundle_()["text/html"]
    assert "sk-top-container" in page  # scikit-learn's diagram is there as well
    assert "budgetron" in make_pipeline(StandardScaler(), Budgetron())._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")


def test_matplotlib_is_imported_only_on_use_and_the_error_without_it_names_the_extra():
    code = """
import sys
from budgetron import Budgetron, evaluate
model = Budgetron(budget=4)
evaluate.progressive(model, ([[0.0], [1.0]] * 9, [0, 1] * 9))
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
model.plot_beliefs()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "Budgetron: matplotlib.pyplot must be installed" in result.stderr
    assert "pip install 'budgetron[plot]'" in result.stderr
