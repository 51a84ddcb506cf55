"""Tracked text files end with one newline, and their lines have no trailing blanks and no Windows line endings.

Hooks of .pre-commit-config.yaml check the same. These tests repeat the checks, because the hooks cannot be downloaded
everywhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text_files():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("git is not installed, or this is not a git repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(f"git: {listed.stderr}")  # it rejects a repository that another user owns
    exclude = re.compile(yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["exclude"])
    names = [name for name in listed.stdout.split("\0") if name and not exclude.search(name)]
    contents = {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}
    return {name: content for name, content in contents.items() if b"\0" not in content}


def test_files_end_with_exactly_one_newline(text_files):
    assert text_files
    assert [name for name, text in text_files.items() if text and (text[-1:] != b"\n" or text[-2:] == b"\n\n")] == []


def test_lines_have_no_blanks_at_their_end(text_files):
    assert [name for name, text in text_files.items() if re.search(rb"[ \t\r]$", text, re.M)] == []
