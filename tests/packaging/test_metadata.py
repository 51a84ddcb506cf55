"""Files agree about the version, the requirements and the commands; bindings use the stable ABI; actions are pinned."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import budgetron

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_all_files_name_the_same_version():
    assert f"version: {budgetron.__version__}\n" in text("CITATION.cff")
    assert f"version: {budgetron.__version__}\n" in text("conda/recipe.yaml")
    assert f"## [{budgetron.__version__}]" in text("CHANGELOG.md")


def test_the_conda_recipe_has_the_same_requirements():
    listed = {re.sub(r"\s", "", line) for line in re.findall(r"^    - (.+)$", text("conda/recipe.yaml"), re.M)}
    for needed in [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]:
        assert needed in listed, needed


def test_bindings_use_the_stable_abi():
    """Python 3.12 and later share a wheel. Macros such as PyFloat_AS_DOUBLE are not part of the stable ABI.

    The #else branches, for builds without the stable ABI, may use them.
    """
    sources = list((ROOT / "src" / "core" / "bindings").glob("*.[ch]pp"))
    assert sources
    for source in sources:
        limited = re.sub(r"#else.*?#endif", "", source.read_text(encoding="utf-8"), flags=re.S)
        macros = re.findall(r"\bPy[A-Z_][A-Za-z]*_[A-Z][A-Z_]+\(", limited)
        assert not macros, f"{source.name}: {macros}"


@pytest.fixture
def workflows():
    folder = ROOT / ".github" / "workflows"
    if not folder.exists():
        pytest.skip("the workflows are not part of this copy")
    files = list(folder.glob("*.yml"))
    assert files
    return files


def test_every_action_is_pinned_to_a_commit(workflows):
    for workflow in workflows:
        for action in re.findall(r"uses: (\S+)", workflow.read_text(encoding="utf-8")):
            assert re.search(r"@[0-9a-f]{40}$", action), f"{workflow.name}: {action}"


NOT_OF_THE_LIBRARY = {"cli", "client", "distributed", "docs", "durable", "new_rule", "packaging", "report", "service",
                      "speed"}  # fmt: skip


def test_the_jobs_without_extras_run_all_tests_of_the_library(workflows):
    (listed,) = re.findall(r"LIBRARY: >-\n((?: {4}tests/.+\n)+)", text(".github/workflows/ci.yml"))
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert {path.removeprefix("tests/") for path in listed.split()} == folders - NOT_OF_THE_LIBRARY


def test_workflows_name_only_make_targets_and_test_files_that_exist(workflows):
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.M))
    for workflow in workflows:
        content = workflow.read_text(encoding="utf-8")
        for target in re.findall(r"make (?:-j\d )?([a-z][\w-]*)", content):
            assert target in targets, f"{workflow.name}: make {target}"
        for path in re.findall(r"\btests/[\w/.]+", content):
            assert (ROOT / path).exists(), f"{workflow.name}: {path}"
