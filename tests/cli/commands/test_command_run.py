"""`budgetron run`: the results equal those of the library, models can be resumed, and errors name a remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from written_mail import write_mail

import budgetron as library
from budgetron import evaluate, graphs, io, kernels
from budgetron.cli import summary


def blocks(path: Path) -> list[tuple]:
    with io.read(path) as stream:
        return [(block.X, block.y, block.tasks) for block in stream]


@pytest.mark.parametrize("delay", [0, 5])
def test_the_results_are_those_of_the_library(mail: Path, as_json, delay: int) -> None:
    result = as_json(
        "run", mail, "--learner", "Forgetron", "--budget", 30, "--kernel", "gaussian:0.5", "--delay", delay
    )
    model = library.Forgetron(30, kernels.Gaussian(0.5))
    expected = evaluate.progressive(model, blocks(mail), classes=["ham", "spam"], delay=delay, window=50)
    assert result["validation"] == expected.to_dict()
    assert (result["model"]["stored"], result["model"]["mistakes"]) == (model.n_stored_, model.n_mistakes_)
    assert (result["rows"], result["bad_lines"], result["stopped"], result["task"]) == (600, 0, None, "user")


def test_run_accepts_every_learner(mail: Path, as_json, learner) -> None:
    result = as_json("run", mail, "--learner", learner.__name__.lower())
    assert result["model"]["learner"] == learner.__name__ and result["validation"]["overall"]["error"] < 0.3


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--budget", "64KiB"], {"budget": "64KiB"}),
        (["--budget", "1,000"], {"budget": 1000}),
        (["--budget", "none"], {"budget": None}),
        (["--kernel", "polynomial"], {"kernel": kernels.Polynomial()}),
        (["--kernel", "polynomial:3"], {"kernel": kernels.Polynomial(3)}),
        (["--kernel", "polynomial:3,normalize"], {"kernel": kernels.Polynomial(3, normalize=True)}),
        (
            ["--kernel", "polynomial:degree=3,bias=0.5,normalize"],
            {"kernel": kernels.Polynomial(3, 0.5, normalize=True)},
        ),
        (["--kernel", "linear"], {"kernel": kernels.Linear()}),
        (["--graph", "disconnected"], {"graph": graphs.disconnected()}),
        (["--graph", "complete:0.5"], {"graph": graphs.complete(coupling=0.5)}),
        (["--graph", "complete:inf"], {"graph": graphs.complete(coupling=float("inf"))}),
        (["--set", "eta=0.2", "--set", "max_task_rows=none"], {"eta": 0.2, "max_task_rows": None}),
    ],
)
def test_options_become_parameters_of_the_learner(
    mail: Path, tmp_path: Path, budgetron, options: list[str], parameters: dict
) -> None:
    budgetron("run", mail, "--learner", "mtbprj-2", "--save", tmp_path / "m", *options)
    model = library.load(tmp_path / "m")
    assert {name: model.get_params()[name] for name in parameters} == parameters


def test_graphs_are_read_from_files(tmp_path: Path, budgetron) -> None:
    stream = tmp_path / "s.csv"
    stream.write_text("task,x,label\n" + "1,0.5,0\nbob,-0.5,1\n03,0.4,0\n" * 20)
    (tmp_path / "clusters.csv").write_text("task,cluster\n# a remark\n1,a\nbob,a\n\n03,b\n")
    (tmp_path / "edges.tsv").write_text("1\tbob\t2.5\nbob\t03\nalone\n")
    for graph, expected in [
        ("clusters:clusters.csv", graphs.clusters({1: "a", "bob": "a", "03": "b"})),
        ("edges:edges.tsv", graphs.from_edges([(1, "bob"), ("bob", "03")], [2.5, 1.0], [1, "bob", "alone"])),
    ]:
        kind, _, name = graph.partition(":")
        budgetron("run", stream, "--learner", "Forgetron", "--graph", f"{kind}:{tmp_path / name}",
                  "--save", tmp_path / kind)  # fmt: skip
        assert library.load(tmp_path / kind).graph == expected


def test_a_wrong_line_of_a_graph_is_named_by_its_number(mail: Path, tmp_path: Path, budgetron) -> None:
    (tmp_path / "clusters.csv").write_text("# two remarks\n# before\ntask,cluster\nann,a\n\nbob\n")
    refused = budgetron("run", mail, "--graph", f"clusters:{tmp_path / 'clusters.csv'}", code=2)
    assert "'bob'] in line 6 of" in refused.output
    (tmp_path / "edges.csv").write_text("ann,bob\ncid\nann,cid,1,2\n")
    refused = budgetron("run", mail, "--graph", f"edges:{tmp_path / 'edges.csv'}", code=2)
    assert "lines task,task or task,task,weight, or task for a task without edges; got" in refused.output
    assert "in line 3 of" in refused.output


def test_a_stopped_and_resumed_run_equals_one_run(mail: Path, tmp_path: Path, budgetron) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    options = ["--budget", 40]
    budgetron("run", mail, *options, "--save", whole)
    budgetron("run", mail, *options, "--limit", 251, "--save", part)
    budgetron("run", mail, "--resume", part, "--skip", 251, "--save", part)  # the resumed file itself may be replaced
    assert library.load(part).n_seen_ == 600
    first, second = (budgetron("predict", model, mail).stdout for model in (whole, part))
    assert first == second and len(first.splitlines()) == 601


def test_a_resumed_model_keeps_its_settings(mail: Path, tmp_path: Path, budgetron) -> None:
    model = tmp_path / "m"
    budgetron("run", mail, "--save", model)
    options = [["--budget", 5], ["--label", "colour"], ["--set", "eta=0.5"], ["--learner", "Forgetron"],
               ["--offset", "size"], ["--classes", "ham,spam,egg"], ["--na-values", "-999"]]  # fmt: skip
    for option in options:
        refused = budgetron("run", mail, "--resume", model, *option, code=2)
        assert f"run: {option[0]} must be left out with --resume" in refused.output
    library.Forgetron(5).fit([[0.0], [1.0]], [0, 1]).save(model)
    assert "saved from Python without them" in budgetron("run", mail, "--resume", model, code=2).output


def test_nothing_is_overwritten_without_the_option(mail: Path, tmp_path: Path, budgetron) -> None:
    model = tmp_path / "m"
    model.write_text("precious")
    refused = budgetron("run", mail, "--save", model, code=2)
    assert "which exists. Replace it with --overwrite." in refused.output and model.read_text() == "precious"
    budgetron("run", mail, "--save", model, "--overwrite")
    assert library.load(model).n_seen_ == 600
    assert "which is a folder" in budgetron("run", mail, "--save", tmp_path, code=2).output
    assert "folder that exists" in budgetron("run", mail, "--save", tmp_path / "no" / "m", code=2).output


def test_invalid_lines_stop_the_run_or_are_skipped(mail: Path, budgetron, as_json) -> None:
    lines = mail.read_text().splitlines()
    lines[10] = "ann,much,0.5,red,ham"
    lines[20] = "bob,0.5"
    lines[30] = "cid,0.5,0.5,red,eggs"
    mail.write_text("\n".join([*lines[:500], "ann,1,1,red,jam", *lines[500:]]) + "\n")
    stopped = budgetron("run", mail, "--classes", "ham,spam", code=2)
    assert f"{mail}, line 11" in stopped.output and "ann,much" in stopped.output and "--on-error skip" in stopped.output
    result = as_json("run", mail, "--classes", "ham,spam", "--on-error", "skip")
    assert result["bad_lines"] == 4 and result["validation"]["overall"]["n"] == 597
    shown = budgetron("run", mail, "--classes", "ham,spam", "--on-error", "skip")
    assert "4 bad lines skipped" in shown.stderr and "line 11" in shown.stderr


def test_a_label_column_that_cannot_be_used_is_refused(tmp_path: Path, budgetron, as_json) -> None:
    stream = tmp_path / "s.csv"
    stream.write_text("x,label\n" + "1,ham\n" * 30)
    assert "--classes A,B" in budgetron("run", stream, code=2).output
    assert as_json("run", stream, "--classes", "ham,spam")["validation"]["overall"]["n"] == 30
    stream.write_text("x,label\n" + "1,1\n" * 30)  # 1 implies that the other label is 0
    assert as_json("run", stream)["model"]["classes"] == [0, 1]
    assert "must be integers, like" in budgetron("run", stream, "--classes", "a,b", code=2).output
    assert "two labels or more" in budgetron("run", stream, "--classes", "a", code=2).output
    stream.write_text("x,name\n" + "".join(f"{n},word{n % 50}\n" for n in range(200)))
    assert "inferred label column 'name' has 50 different" in budgetron("run", stream, code=2).output
    assert len(as_json("run", stream, "--label", "name")["model"]["classes"]) == 50


def test_run_learns_more_than_two_labels(tmp_path: Path, budgetron, as_json) -> None:
    stream = write_mail(tmp_path / "s.csv", labels=("ham", "jam", "spam"))
    result = as_json("run", stream, "--learner", "Forgetron")
    assert result["model"]["classes"] == ["ham", "jam", "spam"] and result["validation"]["overall"]["error"] < 0.4
    assert "mean over classes" in budgetron("run", stream).stdout


@pytest.mark.parametrize("content", ["", "x,label\n", "\n\n\n"])
def test_a_stream_without_examples_is_refused(tmp_path: Path, budgetron, content: str) -> None:
    stream = tmp_path / "s.csv"
    stream.write_text(content)
    refused = budgetron("run", stream, "--save", tmp_path / "m", code=2)
    assert refused.output.startswith("Error: ") and refused.output.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nosuch.csv"], "No such file"),
        (["--kernel", "cosine"], "polynomial, polynomial:DEGREE, linear, linear:BIAS or none"),
        (["--kernel", "gaussian:-1"], "gamma must be a positive number"),
        (["--kernel", "gaussian:width=1"], "--kernel must be gaussian with the parameters gamma"),
        (["--budget", "0"], "--budget must be an integer >= 1"),
        (["--budget", "3 parrots"], "--budget must be"),
        (["--learner", "Perceptron", "--budget", "5"], "--budget must be left out for Perceptron"),
        (["--graph", "ring"], "--graph must be complete"),
        (["--graph", "complete:-1"], "--graph must be complete:COUPLING, a number >= 0, or complete:inf"),
        (["--graph", "complete:x"], "--graph must be complete:COUPLING, a number >= 0, or complete:inf"),
        (["--graph", "complete:nan"], "complete:0 makes the tasks independent"),
        (["--graph", "clusters:nosuch.csv"], "No such file"),
        (["--set", "eta"], "--set must be NAME=VALUE"),
        (["--set", "speed=9"], "--set must be NAME=VALUE"),
        (["--label", "nosuch"], "label: there is no column 'nosuch'"),
    ],
)
def test_invalid_arguments_of_run_are_refused(mail: Path, budgetron, words: list[str], message: str) -> None:
    refused = budgetron("run", *(words if words == ["nosuch.csv"] else [mail, *words]), code=2)
    assert message in refused.output and "Traceback" not in refused.output and refused.stdout == ""


def alarm(position: int, task: str | None) -> evaluate.Alarm:
    return evaluate.Alarm(position, task, task is None, before=0.1, after=0.4, n=50, loss="error")


@pytest.mark.parametrize("n_earlier", [0, 150])
def test_the_summary_lists_the_latest_alarms_and_says_which_it_counts(mail: Path, n_earlier: int) -> None:
    """A result has only its latest alarms, so the tasks of earlier ones are unknown."""
    result = evaluate.progressive(library.Forgetron(30), blocks(mail), classes=["ham", "spam"])
    alarms = [alarm(10, None), alarm(20, "ann"), *(alarm(30 + i, f"user {i}") for i in range(7)), alarm(90, "ann")]
    result = replace(result, alarms=alarms, n_alarms=len(alarms) + n_earlier)
    heading, *lines, more, empty = summary.alarm_lines(result)
    assert heading == ("160 drift alarms. The latest 10 are about:" if n_earlier else "10 drift alarms:")
    assert [line.split(":")[0].strip() for line in lines] == [
        "all tasks together", "task ann", "task user 6", "task user 5", "task user 4",
    ]  # fmt: skip
    assert "90" in lines[1] and (more, empty) == ("  and 4 more tasks; see --report or --json", "")


def test_the_summary_is_readable_text(mail: Path, tmp_path: Path, budgetron) -> None:
    shown = budgetron("run", mail, "--budget", 50, "--save", tmp_path / "m").stdout
    validation = evaluate.progressive(library.Budgetron(50), blocks(mail), classes=["ham", "spam"], window=50)
    assert "600 examples, 3 tasks (column user), labels ham or spam (column label)" in shown
    assert f"error    {100 * validation.overall.error:.1f} %" in shown
    assert "always predicting" in shown and f"budgetron predict {tmp_path / 'm'} FILE" in shown
    listed = [
        line.split()[0] for line in shown.splitlines() if line.split()[:1] and line.split()[0] in validation.per_task
    ]
    assert listed == [task for task, _ in validation.worst_first()] and len(listed) == 3
    assert all(len(line) <= 80 or str(tmp_path) in line for line in shown.splitlines())
    quiet = budgetron("run", mail, "--quiet")
    assert quiet.stdout == "" and quiet.stderr == ""


def test_names_from_user_data_cannot_control_the_terminal(tmp_path: Path, budgetron) -> None:
    stream = tmp_path / "s.csv"
    rows = "\x1b[2J\x07evil,0.5,no\nother,-0.5,yes\n" * 20
    stream.write_text("task,x,label\n" + rows)
    shown = budgetron("run", stream).output
    assert "\x1b" not in shown and "\x07" not in shown and "evil" in shown


def test_a_report_is_written(mail: Path, tmp_path: Path, budgetron) -> None:
    page = tmp_path / "report.html"
    shown = budgetron("run", mail, "--report", page)
    assert f"The report is in {page}." in shown.stdout
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "budgetron run mail.csv" in text and "Column user: task" in text
    assert "--report must be a new file" in budgetron("run", mail, "--report", page, code=2).output


def test_tasks_that_a_graph_does_not_name_are_reported(mail: Path, tmp_path: Path, budgetron, as_json) -> None:
    (tmp_path / "g.csv").write_text("ann,bob\n")
    options = ["--learner", "Forgetron", "--graph", f"edges:{tmp_path / 'g.csv'}"]
    assert "'cid'" in budgetron("run", mail, *options, code=2).output
    result = as_json("run", mail, *options, "--on-error", "skip", "--save", tmp_path / "m")
    of_cid = mail.read_text().count("\ncid,")
    assert result["bad_lines"] == of_cid > 100 and result["validation"]["overall"]["n"] == 600 - of_cid
    assert "column 'user' should be a task of the graph but contains 'cid'" in result["bad"][0]
    again = as_json("run", mail, "--resume", tmp_path / "m", "--on-error", "skip")
    assert again["bad_lines"] == of_cid and again["rows"] == result["rows"] == 600 - of_cid


def test_example_weights_are_used_in_learning(tmp_path: Path, budgetron, as_json) -> None:
    rng, heavy = np.random.default_rng(0), tmp_path / "heavy.vw"
    rows = [(x, 1 if x + rng.normal() > 0 else -1) for x in rng.normal(size=300)]
    heavy.write_text("".join(f"{y} {5 if y == 1 else 1} |f x:{x:.3f} one\n" for x, y in rows))
    plain = tmp_path / "plain.vw"
    plain.write_text("".join(f"{y} |f x:{x:.3f} one\n" for x, y in rows))
    recall = [as_json("run", path)["validation"]["overall"]["recall"] for path in (plain, heavy)]
    assert recall[1] > recall[0]
    assert "Budgetron takes weights" in budgetron("run", heavy, "--learner", "Forgetron", code=2).output


def test_results_are_shown_even_if_nothing_can_be_saved(mail: Path, tmp_path: Path, budgetron, monkeypatch) -> None:
    def raise_disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(io, "save_model", raise_disk_full)
    refused = budgetron("run", mail, "--save", tmp_path / "m", code=3)
    assert "No space left on device" in refused.stderr and "error    " in refused.stdout


def test_the_number_of_tasks_with_their_own_results_is_limited(mail: Path, as_json) -> None:
    result = as_json("run", mail, "--max-tasks", 2)["validation"]
    assert len(result["per_task"]) == 2
    assert result["others"]["n"] + sum(row["n"] for row in result["per_task"].values()) == 600


def test_a_word_among_numbers_gives_a_warning(tmp_path: Path, budgetron) -> None:
    file = tmp_path / "small.csv"
    file.write_text("a,b,label\n1,2,x\noften,3,y\n2,4,x\n", encoding="utf-8")
    assert "'often' is not" in budgetron("run", file, "--quiet").stderr
    assert budgetron("run", file, "--quiet", "--categorical", "a").stderr == ""


def test_a_rare_label_is_noticed(tmp_path: Path, budgetron, as_json) -> None:
    """With 3 % of positive labels, AUC and average precision come before the error, and `compare` compares by AUC."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    clicks = rng.random(2000) < 0.02 * np.exp(x)
    labels = np.where(clicks, "yes", "no")
    lines = [f"{x[i]:.3f},u{i % 7},{labels[i]}" for i in range(2000)]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(["x,user,click", *lines]) + "\n", encoding="utf-8")
    text = budgetron("run", path, "--at", 50).stdout
    assert text.index("AUC") < text.index("avg prec") < text.index("\nerror")
    assert "of the labels are yes, so the error says little" in text and "of the 50 highest scores" in text
    assert "add for example --costs fp=1,fn=20" in text
    assert "add for example" not in budgetron("run", path, "--costs", "fp=1,fn=20").stdout
    result = as_json("run", path)["validation"]
    assert result["rare"]["label"] == "yes" and result["overall"]["auc"] > 0.6 and result["overall"]["brier"] < 0.1
    assert set(result["per_task"]["u1"]) >= {"auc", "average_precision", "precision_at_k", "brier"}
    compared = as_json("compare", path, "--learners", "Budgetron,Forgetron", "--budgets", "20")
    assert compared["compared_by"] == "auc" and compared["best"].startswith("Budgetron, 20")
    assert "compared by AUC" in budgetron("compare", path, "--learners", "Budgetron", "--budgets", "20").stdout


def test_clusters_must_name_tasks_of_the_file(mail: Path, tmp_path: Path, budgetron) -> None:
    clusters = tmp_path / "c.csv"
    options = ["--learner", "Forgetron", "--graph", f"clusters:{clusters}"]
    clusters.write_text("eve,1\nfay,1\n")
    refused = budgetron("run", mail, *options, code=2).output
    assert "names tasks such as ['fay', 'eve'], but column 'user' has [" in refused and "--task COLUMN" in refused
    assert "the stream has no task column" in budgetron("run", mail, *options, "--drop", "user", code=2).output
    clusters.write_text("ann,1\nbob,1\n")
    assert "does not name 1 of the 3 tasks" in budgetron("run", mail, *options).stderr
