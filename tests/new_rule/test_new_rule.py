"""A rule is added by its own files only, as CONTRIBUTING says: it learns, can be saved, and is on the command line.

The tests copy `definition.py`, `estimator.py` and `hashed_perceptron.cpp` into a copy of the package, under the name of
the rule. Only the long run (`make test-long`) compiles the rule.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import budgetron

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
NAME = "hashed_perceptron.py"


def add_python(package):
    shutil.copy(HERE / "definition.py", package / "engine" / "reference" / "rules" / NAME)
    shutil.copy(HERE / "estimator.py", package / "learners" / "estimators" / NAME)


def run(site, *command):
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *map(str, command)]
    result = subprocess.run(command, env=environment, cwd=site, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A copy of the installed package with the rule in NumPy."""
    site = tmp_path_factory.mktemp("site")
    installed = Path(budgetron.__file__).parent
    shutil.copytree(installed, site / "budgetron", ignore=shutil.ignore_patterns("__pycache__"))
    add_python(site / "budgetron")
    return site


def test_a_new_rule_works_in_numpy(site, tmp_path):
    assert run(site, HERE / "used.py", "numpy", tmp_path) == "used\n"


def test_the_command_line_offers_the_new_rule(site, tmp_path):
    lines = [f"u{i % 3},{i % 7},{i % 5},{int(i % 7 > 3)}" for i in range(200)]
    (tmp_path / "s.csv").write_text("\n".join(["user,a,b,label", *lines]))
    for name in ("HashedPerceptron", "hashp"):
        output = run(site, "-m", "budgetron", "run", tmp_path / "s.csv", "--task", "user", "--learner", name,
                     "--set", "rate=0.25", "--save", tmp_path / f"{name}.budgetron")  # fmt: skip
        assert "HashedPerceptron" in output
        assert "HashedPerceptron" in run(site, "-m", "budgetron", "inspect", tmp_path / f"{name}.budgetron")
    assert "HashedPerceptron" in run(site, "-m", "budgetron", "run", "--help")


def test_the_rule_is_not_there_without_its_files():
    assert not hasattr(budgetron, "HashedPerceptron")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_new_rule_works_in_the_core(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    add_python(source / "src" / "budgetron")
    shutil.copy(HERE / "hashed_perceptron.cpp", source / "src" / "core" / "rules")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "wheel", "."]
    subprocess.run(build, cwd=source, check=True)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    assert run(tmp_path / "site", HERE / "used.py", "core", tmp_path) == "used\n"
