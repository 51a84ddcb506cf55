"""The picture of the README states what the committed results say, and figures load nothing from a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))


def test_the_title_of_the_picture_agrees_with_the_results(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    drawn = tmp_path / "picture.svg"
    command = [sys.executable, ROOT / "benchmarks" / "accuracy" / "picture.py", "--to", drawn]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    claim = re.compile(r"Budgetron has the fewest in \d+ of \d+ comparisons")
    shown = (ROOT / "docs" / "figures" / "error-against-bytes.svg").read_text(encoding="utf-8")
    match = claim.search(drawn.read_text(encoding="utf-8"))
    assert match and match[0] in shown, "run python benchmarks/accuracy/picture.py"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
def test_a_figure_loads_nothing(figure):
    text = figure.read_text(encoding="utf-8")
    assert not re.search(r"url\([\"']?(?:https?:)?//|@import|<script|(?:href|src)=[\"'](?:https?:)?//", text)
