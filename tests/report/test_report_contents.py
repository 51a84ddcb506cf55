"""The contents of a report, for every kind of run."""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron, Forgetron, Perceptron, Projectron, evaluate, graphs, kernels, report
from budgetron.cli.summary import model_words
from budgetron.distributed import ReplicatedModel
from budgetron.errors import InputTypeError
from budgetron.evaluate.curve import MAX_POINTS

ROWS = np.random.default_rng(0).standard_normal((300, 4))
LABELS = (ROWS[:, 0] > 0).astype(int)
TASKS = ["ann", "bob", "cid"] * 100


def run_and_render(model, stream, **context):
    result = evaluate.progressive(model, stream, window=50)
    return report.rendered(validation=result, model=model, context=report.Context(**context)), result


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.S)[1])


def test_the_numbers_are_those_of_the_run():
    model = Budgetron(budget=20)
    html, result = run_and_render(model, (ROWS, LABELS, TASKS), seconds=2.0, rows=301, bad_rows=1)
    data = data_of(html)
    assert data["charts"]["error"]["x"] == [point.position for point in result.curve]
    assert data["charts"]["mistakes"]["series"][0]["values"] == [point.so_far.mistakes for point in result.curve]
    rows = {row[0]: row for row in data["tasks"]["rows"]}
    labels = [column["label"] for column in data["tasks"]["columns"]]
    for task, figures in result.per_task.items():
        row = dict(zip(labels, rows[task], strict=True))
        assert (row["Examples"], row["Mistakes"]) == (figures.n, figures.mistakes)
        assert row["Error"] == pytest.approx(figures.error, abs=1e-4)
    assert [row[0] for row in data["tasks"]["rows"]] == [task for task, _ in result.worst_first()]
    # A Budgetron stores no examples.
    assert "Stored share" not in labels and not {"share", "stored"} & set(data["charts"])
    weights = np.array([series["values"] for series in data["charts"]["beliefs"]["series"]])
    assert weights[:, -1].sum() == pytest.approx(1, abs=1e-3)
    constant_error = 1 - max(LABELS.mean(), 1 - LABELS.mean())
    assert data["charts"]["error"]["mark"]["value"] == pytest.approx(constant_error, abs=1e-4)
    assert "150 examples/s" in html and "of 301" in html and f"{100 * result.overall.error:.1f} %" in html


def test_a_short_last_window_is_not_drawn():
    html, result = run_and_render(Forgetron(budget=5), (ROWS[:205], LABELS[:205], TASKS[:205]))
    windows = data_of(html)["charts"]["error"]["series"][1]["values"]
    assert result.curve[-1].window.n == 5 and windows[-1] is None and None not in windows[:-1]
    assert f"to {100 * result.curve[-2].window.error:.1f} % in the last" in html


def test_the_windows_of_a_long_stream_are_drawn_to_its_end():
    n = 2 * MAX_POINTS
    rows = np.random.default_rng(1).standard_normal((n, 2))
    model = Forgetron(budget=5)
    result = evaluate.progressive(model, (rows, (rows[:, 0] > 0).astype(int), None), window=1)
    html = report.rendered(validation=result, model=model)
    windows = data_of(html)["charts"]["error"]["series"][1]["values"]
    assert len(windows) == MAX_POINTS and None not in windows
    assert "in the last, of up to 2 examples each" in html


def test_an_empty_budget_is_not_drawn_as_full():
    rows = np.concatenate([np.zeros((100, 4)), ROWS[100:]])  # a Projectron with a linear kernel stores no rows of zeros
    html, result = run_and_render(Projectron(budget=4, kernel=kernels.Linear()), (rows, LABELS, TASKS))
    assert result.curve[0].stored == 0
    series = data_of(html)["charts"]["share"]["series"]
    assert sum(area["values"][0] for area in series) == 0
    assert sum(area["values"][-1] for area in series) == pytest.approx(1, abs=1e-3)


def test_the_digest_is_that_of_the_file(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"a,b\n1,2\n")
    assert report.digest_of(file) == "sha256:" + hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert report.digest_of(tmp_path) == report.digest_of(tmp_path / "none") == ""


def test_a_report_says_how_to_reproduce_it():
    html, _ = run_and_render(Forgetron(budget=5), (ROWS, LABELS, TASKS), command="budgetron run 'my data.csv'",
                      source="my data.csv", digest="sha256:12ab", seed=7)
    for words in ("budgetron run &#x27;my data.csv&#x27;", "sha256:12ab", "Forgetron(budget=5)", "scikit-learn",
                  "sha256sum &#x27;my data.csv&#x27;"):
        assert words in html


@pytest.mark.parametrize(
    ("model", "rows", "tasks"),
    [
        (Budgetron(budget=10), ROWS, None),
        (Budgetron(budget=10, kernel=None), ROWS, TASKS),
        (Budgetron(budget="32 KiB"), ROWS, TASKS),
        (Perceptron(kernels.Linear(), graph=graphs.disconnected()), ROWS, TASKS),
        (Forgetron(5, graph=graphs.clusters({"ann": 1, "bob": 1})), ROWS, TASKS),
        (Forgetron(5, graph=graphs.complete(coupling=float("inf"))), sparse.csr_matrix(ROWS), TASKS),
        (Budgetron(budget=10), sparse.csr_matrix(ROWS), [1.5, (2, "b"), None] * 100),
    ],
)
def test_every_kind_of_run_can_be_reported(model, rows, tasks):
    html, _ = run_and_render(model, (rows, LABELS, tasks))
    assert html.count("<section") == html.count("</section>") >= 6
    assert data_of(html)["tasks"]["rows"] and ("NaN" not in html)
    assert len(html) < 600_000


def test_no_memory_limit_is_stated_that_may_be_exceeded():
    dense, _ = run_and_render(Forgetron(budget=5), (ROWS, LABELS, TASKS))
    assert "It will never take more than" in dense
    rows, _ = run_and_render(Forgetron(budget=5), (sparse.csr_matrix(ROWS), LABELS, TASKS))
    unbounded, _ = run_and_render(Perceptron(kernels.Linear()), (ROWS, LABELS, TASKS))
    for html in (rows, unbounded):
        assert "It will never take more than" not in html and "no limit, or not known in advance" in html


def test_a_report_of_no_examples_and_a_report_without_a_model():
    empty = evaluate.progressive(Forgetron(budget=5), iter(()))
    assert "the stream was empty" in report.rendered(validation=empty)
    result = evaluate.progressive(Forgetron(budget=5), (ROWS, LABELS, TASKS))
    assert "No model was given" in report.rendered(validation=result)


def test_pages_are_bounded(pages):
    assert pages["usual"].stat().st_size < 600_000
    assert pages["many"].stat().st_size < 1_200_000


def test_an_invalid_validation_or_context_is_refused(tmp_path):
    result = evaluate.progressive(Forgetron(budget=5), (ROWS, LABELS, TASKS))
    with pytest.raises(InputTypeError, match="validation must be a result of evaluate"):
        report.write(tmp_path / "r.html", validation={})
    with pytest.raises(InputTypeError, match=r"context must be a report\.Context"):
        report.write(tmp_path / "r.html", validation=result, context={"source": "x"})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="nowhere"):
        report.write(tmp_path / "nowhere" / "r.html", validation=result)


@pytest.mark.parametrize("limit", [1024, 2])
def test_the_drawing_has_one_line_per_edge(monkeypatch, limit):
    """The path a – b – c and a separate task d have two lines.

    Up to DENSE_LIMIT tasks, a graph stores A⁻¹; with more tasks it stores A = I + L, where L is its Laplacian.
    """
    monkeypatch.setattr("budgetron.graphs.construct.DENSE_LIMIT", limit)
    graph = graphs.from_edges([("a", "b"), ("b", "c")], tasks=["d"])
    assert (graph.dense is None) == (limit == 2)
    html, _ = run_and_render(Forgetron(5, graph=graph), (ROWS, LABELS, list("abcd") * 75))
    assert html.count('class="edge"') == 2
    html, _ = run_and_render(Forgetron(5, graph=graphs.from_similarity(np.ones((2, 2)), tasks=["a", "b"])),
                      (ROWS, LABELS, list("ab") * 150))  # fmt: skip
    assert html.count('class="edge"') == 1  # this A⁻¹ has no inverse A, so a line stands for similar tasks


def test_replicas_are_not_called_shards():
    model = ReplicatedModel(Budgetron(budget=64), replicas=2, exchange_every=128, block=128)
    with model:
        html, _ = run_and_render(model, (ROWS, LABELS, TASKS))
        assert "2 replicas" in html and "shards" not in html
        assert " in 2 replicas" in model_words(model)
