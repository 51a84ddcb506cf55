"""`budgetron compare` and `tune`: figures equal those of separate runs; advice needs a significant difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def test_a_comparison_gives_each_learner_the_figures_of_a_separate_run(mail: Path, as_json) -> None:
    budgets, both = ["--budgets", "5,32KiB"], ["--graphs", "complete,disconnected"]
    found = as_json("compare", mail, "--learners", "Forgetron,mtrbp", *budgets, *both)
    assert len(found["learners"]) == 8
    for one in found["learners"]:
        words = ["--learner", one["learner"], "--budget", one["budget"], "--graph", one["graph"], "--window", 1000]
        alone = as_json("run", mail, *words)
        assert alone["validation"]["overall"].items() <= one.items() and one["stored"] == alone["model"]["stored"]


def test_the_smallest_of_the_best_models_is_recommended(mail: Path, as_json, budgetron) -> None:
    found = as_json("compare", mail, "--learners", "all", "--budgets", "3,100")
    by_name = {one["name"]: one for one in found["learners"]}
    close = [one for one in found["learners"] if not one["worse_than_best"]]
    assert by_name[found["best"]]["error"] == min(one["error"] for one in found["learners"])
    assert by_name[found["recommended"]]["memory_bytes"] == min(one["memory_bytes"] for one in close)
    assert any(one["worse_than_best"] for one in found["learners"]) and "Perceptron, no limit" in by_name
    assert found["command"].startswith(f"budgetron run {mail} ") and found["why"].startswith("Take ")
    shown = budgetron("compare", mail, "--learners", "all", "--budgets", "3,100").stdout
    assert f"Take {found['recommended']}" in shown and found["command"] in shown


def test_learners_are_compared_with_the_constant_answer(tmp_path: Path, as_json, budgetron) -> None:
    rng, stream = np.random.default_rng(0), tmp_path / "noise.csv"
    rows = (f"{x:.3f},{int(y > 0.7)}" for x, y in rng.random((400, 2)))
    stream.write_text("\n".join(["x,label", *rows]) + "\n")
    words = ["compare", stream, "--learners", "mtrbp,mtforg", "--budgets", "10"]
    found = as_json(*words)
    ones = stream.read_text().count(",1\n")
    assert found["constant"] == {"label": 0, "error": pytest.approx(ones / 400)}
    assert found["why"].startswith("None of them is better than always predicting 0")
    assert "None of them is better" in " ".join(budgetron(*words).stdout.split())


def test_a_recommendation_below_the_constant_answer_does_not_hide_the_best(tmp_path: Path, as_json) -> None:
    rng, stream = np.random.default_rng(1), tmp_path / "weak.csv"
    rows = (f"{x:.3f},{int(u < 0.75 * (x > 0.5) + 0.15)}" for x, u in rng.random((60, 2)))
    stream.write_text("\n".join(["x,label", *rows]) + "\n")
    found = as_json("compare", stream, "--learners", "mtforg", "--budgets", "1,30")
    errors = {one["name"]: one["error"] for one in found["learners"]}
    assert errors[found["best"]] < found["constant"]["error"] <= errors[found["recommended"]]
    assert "None of them" not in found["why"] and found["why"].startswith(f"{found['best']} has the lowest error")


def test_learners_that_cannot_run_are_listed_with_the_reason(mail: Path, tmp_path: Path, as_json, budgetron) -> None:
    words = ["compare", mail, "--learners", "Budgetron,Forgetron", "--budgets", "10", "--kernel", "polynomial:2"]
    found = as_json(*words)
    assert [one["learner"] for one in found["learners"]] == ["Forgetron"]
    assert "kernel must be Gaussian(), Linear() or None" in found["refused"]["Budgetron, 10"]
    assert "Not run: Budgetron" in budgetron(*words).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--learners", "nosuch"], "--learner must be one of"),
        (["--budgets", "0"], "--budget must be"),
        (["--learners", ""], "must be 1 to 100; got 0"),
        (["--learners", "mtrbp,bpa-s", "--budgets", ",".join(map(str, range(1, 60)))], "must be 1 to 100; got 118"),
    ],
)
def test_compare_refuses_invalid_learners_and_budgets(mail: Path, budgetron, words: list[str], says: str) -> None:
    assert says in budgetron("compare", mail, *words, code=2).output


def chequered(path: Path, n: int = 1500, squares: int = 6) -> Path:
    """A chequerboard; six squares are too small for the default bandwidth."""
    X = np.random.default_rng(0).random((n, 2))
    y = np.floor(squares * X).astype(int).sum(axis=1) % 2
    path.write_text("a,b,label\n" + "".join(f"{a:.4f},{b:.4f},{label}\n" for (a, b), label in zip(X, y, strict=True)))
    return path


def test_tune_finds_better_settings(tmp_path: Path, as_json, budgetron) -> None:
    stream = chequered(tmp_path / "s.csv")
    found = as_json("tune", stream, "--learner", "RandomBudgetPerceptron", "--budget", 400)
    bandwidth, budget = found["rounds"]
    tried = {one["value"]: one["error"] for one in bandwidth["tried"]}
    assert bandwidth["better_than_default"] and tried[bandwidth["best"]] == min(tried.values())
    assert tried[bandwidth["default"]] - tried[bandwidth["best"]] > 0.05
    assert f"--kernel gaussian:{bandwidth['best']}" in found["command"] and not found["default_is_as_good"]
    assert [one["value"] for one in budget["tried"]] == ["100", "200", "400", "800"]
    run = as_json(*found["command"].split()[1:-2])  # without --save MODEL
    assert run["validation"]["overall"]["error"] == pytest.approx(
        min(one["error"] for one in budget["tried"] if one["value"] == budget["best"]) if budget["better_than_default"]
        else next(one["error"] for one in budget["tried"] if one["value"] == "400")
    )  # fmt: skip
    shown = budgetron("tune", stream, "--learner", "mtrbp", "--budget", 400).stdout
    assert f"gamma {bandwidth['best']} is better" in shown and found["command"] in shown


def test_tune_says_when_the_default_is_as_good(mail: Path, as_json, budgetron) -> None:
    options = ["--learner", "Forgetron", "--rows", 300]
    found = as_json("tune", mail, *options)
    assert found["examples"] == 300 and found["default_is_as_good"]
    assert found["command"] == f"budgetron run {mail} --learner Forgetron --save MODEL"
    assert "Nothing tried is better than the default" in budgetron("tune", mail, *options).stdout


def test_a_model_without_a_kernel_is_recommended_if_it_is_as_good(
    mail: Path, tmp_path: Path, as_json, budgetron
) -> None:
    found = as_json("compare", mail, "--learners", "Budgetron,Forgetron", "--budgets", "64KiB")
    names = ["Budgetron, 64KiB", "Budgetron, 64KiB, no kernel", "Forgetron, 64KiB"]
    assert [one["name"] for one in found["learners"]] == names
    assert found["recommended"] == "Budgetron, 64KiB, no kernel" and "--kernel none" in found["command"]
    only = as_json("compare", mail, "--learners", "Budgetron", "--budgets", "64KiB", "--kernel", "gaussian")
    assert [one["name"] for one in only["learners"]] == ["Budgetron, 64KiB"]
    tuned = as_json("tune", mail)
    assert tuned["rounds"][0]["what"] == "kernel" and tuned["rounds"][0]["chosen"] == "none"
    assert "--kernel none" in tuned["command"] and [one["what"] for one in tuned["rounds"]] == ["kernel", "budget"]
    assert "To train as well at less cost" in budgetron("tune", mail).stdout
    curved = chequered(tmp_path / "s.csv", squares=2)
    assert as_json("tune", curved)["rounds"][0]["chosen"] == "gaussian"  # no line divides a chequerboard


def test_a_smaller_budget_is_recommended_only_after_all_examples(mail: Path, as_json) -> None:
    options = ["--learner", "Forgetron", "--kernel", "linear", "--budget", 400]
    whole, part = as_json("tune", mail, *options), as_json("tune", mail, *options, "--rows", 500)
    for found, chosen in ((whole, "100"), (part, "400")):
        (round_,) = found["rounds"]
        assert round_["smaller_and_as_good"] == "100" and round_["chosen"] == chosen
        assert f"--budget {chosen}" in found["command"]


def test_the_recommended_command_has_the_figures_of_the_comparison(mail: Path, as_json) -> None:
    found = as_json("compare", mail, "--learners", "Budgetron,BudgetProjectron", "--budgets", "64KiB")
    for one in found["learners"]:
        options = ["--learner", one["learner"], "--budget", one["budget"], "--kernel", one["kernel"]]
        run = as_json("run", mail, *options)["validation"]["overall"]
        assert {name: one[name] for name in ("n", "mistakes", "error", "f_measure")} == {
            name: run[name] for name in ("n", "mistakes", "error", "f_measure")}  # fmt: skip


def test_tune_tries_only_settings_that_are_left_open(mail: Path, as_json, budgetron) -> None:
    refused = budgetron("tune", mail, "--learner", "Perceptron", "--kernel", "linear", code=2)
    assert "what to tune must be" in refused.output
    only_budget = as_json("tune", mail, "--kernel", "gaussian:0.1", "--budget", "32KiB")
    (found,) = only_budget["rounds"]
    assert found["what"] == "budget" and [one["value"] for one in found["tried"]] == ["8KiB", "16KiB", "32KiB", "64KiB"]
    sizes = (2**13, 2**14, 2**15, 2**16)
    assert all(one["memory_bytes"] <= size for one, size in zip(found["tried"], sizes, strict=True))
