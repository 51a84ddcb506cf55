"""`budgetron compare` and `tune`: their results equal those of separate runs, and they recommend settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def test_a_comparison_gives_each_learner_the_results_of_a_separate_run(mail: Path, as_json) -> None:
    budgets, graph_options = ["--budgets", "5,32KiB"], ["--graphs", "complete,disconnected"]
    result = as_json("compare", mail, "--learners", "Forgetron,mtrbp", *budgets, *graph_options)
    assert len(result["learners"]) == 8
    for learner in result["learners"]:
        options = ["--learner", learner["learner"], "--budget", learner["budget"], "--graph", learner["graph"]]
        separate = as_json("run", mail, *options, "--window", 1000)
        assert separate["validation"]["overall"].items() <= learner.items()
        assert learner["stored"] == separate["model"]["stored"]


def test_the_most_accurate_of_the_smallest_good_models_is_recommended(mail: Path, as_json, budgetron) -> None:
    result = as_json("compare", mail, "--learners", "all", "--budgets", "3,100")
    by_name = {learner["name"]: learner for learner in result["learners"]}
    close = [learner for learner in result["learners"] if not learner["worse_than_best"]]  # not significantly worse
    assert by_name[result["best"]]["error"] == min(learner["error"] for learner in result["learners"])
    least = min(learner["memory_bytes"] for learner in close)
    smallest = [learner for learner in close if learner["memory_bytes"] <= 1.25 * least]
    # Of the models in `close` that take at most 25 % more memory than the smallest, the most accurate is recommended.
    assert by_name[result["recommended"]]["error"] == min(learner["error"] for learner in smallest)
    assert any(learner["worse_than_best"] for learner in result["learners"]) and "Perceptron, no limit" in by_name
    assert result["command"].startswith(f"budgetron run {mail} ") and result["why"].startswith("Take ")
    shown = budgetron("compare", mail, "--learners", "all", "--budgets", "3,100").stdout
    assert f"Take {result['recommended']}" in shown and result["command"] in shown


def test_learners_are_compared_with_a_constant_prediction(tmp_path: Path, as_json, budgetron) -> None:
    rng, stream = np.random.default_rng(0), tmp_path / "noise.csv"
    rows = (f"{x:.3f},{int(y > 0.7)}" for x, y in rng.random((400, 2)))
    stream.write_text("\n".join(["x,label", *rows]) + "\n")
    words = ["compare", stream, "--learners", "mtrbp,mtforg", "--budgets", "10"]
    result = as_json(*words)
    ones = stream.read_text().count(",1\n")
    assert result["constant"] == {"label": 0, "error": pytest.approx(ones / 400)}
    assert result["why"].startswith("None of them is better than always predicting 0")
    assert "None of them is better" in " ".join(budgetron(*words).stdout.split())


def test_a_recommendation_worse_than_a_constant_prediction_does_not_hide_the_best(tmp_path: Path, as_json) -> None:
    rng, stream = np.random.default_rng(1), tmp_path / "weak.csv"
    rows = (f"{x:.3f},{int(u < 0.75 * (x > 0.5) + 0.15)}" for x, u in rng.random((60, 2)))
    stream.write_text("\n".join(["x,label", *rows]) + "\n")
    result = as_json("compare", stream, "--learners", "mtforg", "--budgets", "1,30")
    errors = {learner["name"]: learner["error"] for learner in result["learners"]}
    assert errors[result["best"]] < result["constant"]["error"] <= errors[result["recommended"]]
    assert "None of them" not in result["why"] and result["why"].startswith(f"{result['best']} has the lowest error")


def test_learners_that_cannot_run_are_listed_with_the_reason(mail: Path, as_json, budgetron) -> None:
    words = ["compare", mail, "--learners", "Budgetron,Forgetron", "--budgets", "10", "--kernel", "polynomial:2"]
    result = as_json(*words)
    assert [learner["learner"] for learner in result["learners"]] == ["Forgetron"]
    assert "kernel must be Gaussian(), Linear() or None" in result["refused"]["Budgetron, 10"]
    assert "Not run: Budgetron" in budgetron(*words).stdout


def test_learners_run_once_for_a_kernel_or_graph_that_they_do_not_have(
    mail: Path, as_json, budgetron, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # in a narrow terminal the cells of the table would be cut
    learners = ["--learners", "Perceptron,LinearPerceptron,RelationPerceptron"]
    words = ["compare", mail, *learners, "--kernel", "linear", "--graphs", "complete,disconnected"]
    assert [learner["name"] for learner in as_json(*words)["learners"]] == [
        "Perceptron, no limit, complete",
        "Perceptron, no limit, disconnected",
        "LinearPerceptron, no limit, complete",
        "LinearPerceptron, no limit, disconnected",
        "RelationPerceptron, no limit",
    ]
    shown = budgetron(*words).stdout
    assert "by 5 settings;" in " ".join(shown.split())  # lines may be wrapped anywhere
    rows = sorted(line.split()[:4] for line in shown.splitlines() if "Perceptron  " in line)
    assert rows == [
        ["LinearPerceptron", "none", "-", "complete"],
        ["LinearPerceptron", "none", "-", "disconnected"],
        ["Perceptron", "none", "linear", "complete"],
        ["Perceptron", "none", "linear", "disconnected"],
        ["RelationPerceptron", "none", "-", "-"],
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learners", "nosuch"], "--learners must be one of"),
        (["--budgets", "0"], "--budget must be"),
        (["--learners", ""], "must be 1 to 100; got 0"),
        (["--learners", "mtrbp,bpa-s", "--budgets", ",".join(map(str, range(1, 60)))], "must be 1 to 100; got 118"),
    ],
)
def test_compare_refuses_invalid_learners_and_budgets(mail: Path, budgetron, words: list[str], message: str) -> None:
    assert message in budgetron("compare", mail, *words, code=2).output


def write_chequerboard(path: Path, n: int = 1500, squares: int = 6) -> Path:
    """Write points whose label is their colour on a chequerboard.

    With six squares per side, the squares are too small for the default bandwidth.
    """
    X = np.random.default_rng(0).random((n, 2))
    y = np.floor(squares * X).astype(int).sum(axis=1) % 2
    path.write_text("a,b,label\n" + "".join(f"{a:.4f},{b:.4f},{label}\n" for (a, b), label in zip(X, y, strict=True)))
    return path


def test_tune_finds_better_settings(tmp_path: Path, as_json, budgetron) -> None:
    stream = write_chequerboard(tmp_path / "s.csv")
    result = as_json("tune", stream, "--learner", "RandomBudgetPerceptron", "--budget", 400)
    bandwidth, budget = result["rounds"]
    tried = {setting["value"]: setting["error"] for setting in bandwidth["tried"]}
    assert bandwidth["better_than_default"] and tried[bandwidth["best"]] == min(tried.values())
    assert tried[bandwidth["default"]] - tried[bandwidth["best"]] > 0.05
    assert f"--kernel gaussian:{bandwidth['best']}" in result["command"] and not result["default_is_as_good"]
    assert [setting["value"] for setting in budget["tried"]] == ["100", "200", "400", "800"]
    run = as_json(*result["command"].split()[1:-2])  # without --save MODEL
    errors = {setting["value"]: setting["error"] for setting in budget["tried"]}
    assert run["validation"]["overall"]["error"] == pytest.approx(errors[budget["chosen"]])
    shown = budgetron("tune", stream, "--learner", "mtrbp", "--budget", 400).stdout
    assert f"gamma {bandwidth['best']} is better" in shown and result["command"] in shown


def test_of_equal_errors_that_of_the_default_or_of_the_recommended_setting_is_the_lowest(
    mail: Path, as_json, budgetron
) -> None:
    # No budget is ever full, so all results are equal.
    options = ["--kernel", "linear", "--limit", 300]
    (round_,) = as_json("tune", mail, "--learner", "Forgetron", "--budget", 4000, *options)["rounds"]
    assert len({setting["error"] for setting in round_["tried"]}) == 1 and round_["best"] == "4000"
    printed = budgetron("tune", mail, "--learner", "Forgetron", "--budget", 4000, *options).stdout
    assert "budget 4000, the default, has the lowest error." in printed
    compared = as_json("compare", mail, "--learners", "Forgetron", "--budgets", "4000,1000", *options)
    assert len({learner["error"] for learner in compared["learners"]}) == 1
    assert compared["best"] == compared["recommended"] == "Forgetron, 1000"
    assert compared["why"].startswith("Take Forgetron, 1000: it has the lowest error")


def test_tune_says_when_the_default_is_as_good(mail: Path, as_json, budgetron) -> None:
    options = ["--learner", "Forgetron", "--rows", 300]
    result = as_json("tune", mail, *options)
    assert result["examples"] == 300 and result["default_is_as_good"]
    assert result["command"] == f"budgetron run {mail} --learner Forgetron --save MODEL"
    assert "Nothing tried is better than the default" in budgetron("tune", mail, *options).stdout


def test_a_model_without_a_kernel_is_recommended_if_it_is_not_significantly_worse(
    mail: Path, tmp_path: Path, as_json, budgetron
) -> None:
    result = as_json("compare", mail, "--learners", "Budgetron,Forgetron", "--budgets", "64KiB")
    names = ["Budgetron, 64KiB", "Budgetron, 64KiB, no kernel", "Forgetron, 64KiB"]
    assert [learner["name"] for learner in result["learners"]] == names
    assert result["recommended"] == "Budgetron, 64KiB, no kernel" and "--kernel none" in result["command"]
    only = as_json("compare", mail, "--learners", "Budgetron", "--budgets", "64KiB", "--kernel", "gaussian")
    assert [learner["name"] for learner in only["learners"]] == ["Budgetron, 64KiB"]
    tuned = as_json("tune", mail)
    assert tuned["rounds"][0]["what"] == "kernel" and tuned["rounds"][0]["chosen"] == "none"
    assert "--kernel none" in tuned["command"] and [round_["what"] for round_ in tuned["rounds"]] == [
        "kernel",
        "budget",
    ]
    printed = " ".join(budgetron("tune", mail).stdout.split())  # the line may be wrapped
    assert "A cheaper setting that is not significantly worse" in printed
    curved = write_chequerboard(tmp_path / "s.csv", squares=2)
    assert as_json("tune", curved)["rounds"][0]["chosen"] == "gaussian"  # a linear model cannot separate the squares


def test_a_smaller_budget_is_recommended_only_if_all_examples_were_read(mail: Path, as_json) -> None:
    options = ["--learner", "Forgetron", "--kernel", "linear", "--budget", 400]
    whole, part = as_json("tune", mail, *options), as_json("tune", mail, *options, "--rows", 500)
    for result, chosen in ((whole, "100"), (part, "400")):
        (round_,) = result["rounds"]
        assert round_["smaller_and_as_good"] == "100" and round_["chosen"] == chosen
        assert f"--budget {chosen}" in result["command"]


def test_the_recommended_command_and_each_kernel_give_the_results_of_the_comparison(mail: Path, as_json) -> None:
    result = as_json("compare", mail, "--learners", "Budgetron,BudgetProjectron", "--budgets", "64KiB")
    commands = []
    for learner in result["learners"]:
        options = ["--learner", learner["learner"], "--budget", learner["budget"], "--kernel", learner["kernel"]]
        commands.append((learner, ["run", mail, *options]))
        if learner["name"] == result["recommended"]:
            commands.append((learner, result["command"].split()[1:-2]))  # without --save MODEL
    assert len(commands) == len(result["learners"]) + 1
    for learner, words in commands:
        run = as_json(*words)["validation"]["overall"]
        assert {name: learner[name] for name in ("n", "mistakes", "error", "f_measure")} == {
            name: run[name] for name in ("n", "mistakes", "error", "f_measure")}  # fmt: skip


def test_tune_reports_the_lines_that_it_skips(mail: Path, budgetron) -> None:
    lines = mail.read_text().splitlines()
    mail.write_text("\n".join([*lines[:300], "ann,much,0.1,red,ham", *lines[300:], ""]))
    result = budgetron("tune", mail, "--learner", "Forgetron", "--budget", 20, "--on-error", "skip")
    assert result.stderr.startswith("1 bad line skipped; the first:\n  line 301: ")


def test_tune_tries_only_parameters_that_the_options_leave_open(mail: Path, as_json, budgetron) -> None:
    refused = budgetron("tune", mail, "--learner", "Perceptron", "--kernel", "linear", code=2)
    assert "there is nothing to tune" in refused.output
    for learner in ("LinearPerceptron", "multitask-p-norm"):  # they have neither a kernel nor a budget
        refused = budgetron("tune", mail, "--learner", learner, code=2)
        assert f"there is nothing to tune, because {learner} has neither" in refused.output
    only_budget = as_json("tune", mail, "--kernel", "gaussian:0.1", "--budget", "32KiB")
    (round_,) = only_budget["rounds"]
    assert round_["what"] == "budget" and [setting["value"] for setting in round_["tried"]] == [
        "8KiB",
        "16KiB",
        "32KiB",
        "64KiB",
    ]
    sizes = (2**13, 2**14, 2**15, 2**16)
    assert all(setting["memory_bytes"] <= size for setting, size in zip(round_["tried"], sizes, strict=True))
