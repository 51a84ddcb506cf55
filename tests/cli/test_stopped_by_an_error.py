"""After a bad line in the middle of a file, the model so far is saved, and the printed command continues the run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import budgetron as library


@pytest.fixture
def bad_line_file(tmp_path: Path) -> Path:
    """A file whose line 5,002 is bad; types are inferred from the first 4,096 rows."""
    rows = [f"u{i % 5},{i % 7 - 3},{i % 11 / 4},{int(i % 7 > 3)}" for i in range(6000)]
    rows[5000] = rows[5000].replace(",", ",oops", 1)
    path = tmp_path / "late file.csv"
    path.write_text("user,a,b,label\n" + "\n".join(rows) + "\n")
    return path


def printed_command(text: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith("  budgetron run ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize("delay", [0, 7])
def test_the_model_is_saved_and_can_be_continued(bad_line_file: Path, tmp_path: Path, budgetron, delay: int) -> None:
    part, whole = tmp_path / "part", tmp_path / "whole"
    options = ["--learner", "Forgetron", "--budget", 20]
    stopped = budgetron("run", bad_line_file, *options, "--delay", delay, "--save", part, code=2)
    assert library.load(part).n_seen_ == 5000 and "5,000 examples" in stopped.stdout
    assert "Stopped by an error after 5,000 examples. The model so far is saved in" in stopped.stderr
    assert "line 5002: column 'a' should be a number but contains 'oops" in stopped.stderr.splitlines()[-1]
    command = printed_command(stopped.stderr)
    assert command[command.index("--skip") + 1] == "5000" and "--on-error" in command
    assert budgetron(*command).exit_code == 0
    budgetron("run", bad_line_file, *options, "--on-error", "skip", "--save", whole)
    assert part.read_bytes() == whole.read_bytes()


def test_a_word_in_a_column_of_numbers_can_be_declared_missing(bad_line_file: Path, tmp_path: Path, budgetron) -> None:
    stopped = budgetron("run", bad_line_file, "--kernel", "none", "--save", tmp_path / "part", code=2)
    word = bad_line_file.read_text().splitlines()[5001].split(",")[1]
    assert f"treat it as missing with --na-values {word}, or treat the column" in stopped.stderr
    assert "6,000 examples" in budgetron("run", bad_line_file, "--kernel", "none", "--na-values", word).stdout
    # A saved model keeps the types of its columns, so the message offers only to skip the line.
    again = budgetron("run", bad_line_file, "--resume", tmp_path / "part", "--skip", 5000, code=2).stderr
    assert "--on-error skip." in again and "--na-values" not in again and "--categorical" not in again


def test_without_save_no_command_to_continue_is_printed(bad_line_file: Path, budgetron) -> None:
    stopped = budgetron("run", bad_line_file, "--kernel", "none", "--json", code=2)
    assert "Nothing was saved" in stopped.stderr and '"stopped": "an error"' in stopped.stdout
    assert "'oops" in stopped.stdout


def test_a_comparison_shows_the_results_before_the_bad_line(bad_line_file: Path, budgetron) -> None:
    stopped = budgetron("compare", bad_line_file, "--learners", "Forgetron", "--budgets", 20, code=2)
    assert "5,000 examples of 5 tasks" in stopped.stdout and "the results cover these" in stopped.stderr
    assert "line 5002" in stopped.stderr


def test_nothing_is_learned_before_an_error_in_the_first_rows(tmp_path: Path, budgetron) -> None:
    file, model = tmp_path / "early.csv", tmp_path / "m"
    file.write_text("a,label\n1\n" + "1,0\n2,1\n" * 30)
    assert "line 2: the line has 1 fields" in budgetron("run", file, "--save", model, code=2).output
    assert not model.exists()


def test_an_unknown_task_is_a_bad_line(tmp_path: Path, budgetron) -> None:
    file, model = tmp_path / "s.csv", tmp_path / "m"
    file.write_text("user,a,label\n" + "ann,1,0\nbob,2,1\n" * 3000 + "cid,1,0\n")
    (tmp_path / "g.csv").write_text("ann,bob\n")
    options = ["--learner", "Forgetron", "--budget", 5, "--graph", f"edges:{tmp_path / 'g.csv'}", "--save", model]
    stopped = budgetron("run", file, *options, code=2)
    assert "line 6002: column 'user' should be a task of the graph but contains 'cid'" in stopped.stderr
    assert library.load(model).n_seen_ == 6000
