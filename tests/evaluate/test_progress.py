"""The progress line: one line on standard error, overwritten in place, which does not change the results."""

from __future__ import annotations

import itertools
import re
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest

from budgetron import Forgetron, evaluate, io, progress
from budgetron.progress import ProgressLine, clock_time

X = np.random.default_rng(0).normal(size=(3000, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def always_due(monkeypatch):
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)


@pytest.fixture
def slower_and_slower(monkeypatch):
    """A clock that is ten times as late at each look, so that the rate of a line is shorter than the one before."""
    times = (1e-12 * 10**look for look in itertools.count())
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(times)))


def test_an_evaluation_shows_its_progress_and_gives_the_same_result(capsys, always_due):
    with_progress = evaluate.progressive(Forgetron(budget=5), (X, Y), progress=True)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert len(lines) == 4 and lines[0].startswith("1,000 examples") and "33%" in lines[0]
    assert "error " in lines[0] and lines[-1].startswith("3,000 examples") and lines[-1].endswith("\n")
    assert with_progress.to_dict() == evaluate.progressive(Forgetron(budget=5), (X, Y)).to_dict()
    assert capsys.readouterr().err == ""


def test_a_stream_of_unknown_length_shows_no_percentage(capsys, always_due, slower_and_slower):
    pieces = ((X[start : start + 500], Y[start : start + 500], None) for start in range(0, 3000, 500))
    evaluate.progressive(Forgetron(budget=5), pieces, classes=[0, 1], progress=True)
    *_, before, last = capsys.readouterr().err.split("\r")
    # The spaces that cover the longer line before do not count. For a stream of known length, the share that is done
    # would follow the error.
    assert len(last.rstrip()) < len(before) and re.fullmatch(r"3,000 examples  [\d,]+/s  error [\d.]+ %", last.rstrip())


def test_reading_a_file_shows_its_progress(capsys, always_due, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("a,y\n" + "1,0\n2,1\n" * 3000)
    with io.read(path, block_rows=1000, progress=True) as stream:
        rows = sum(len(block) for block in stream)
    err = capsys.readouterr().err
    assert rows == 6000 and err.split("\r")[1].startswith("1,000 rows") and "100%" in err.split("\r")[-1]
    with io.read(BytesIO(b"a,y\n1,0\n2,1\n"), progress=True) as stream:
        list(stream)
    assert "2 rows" in capsys.readouterr().err


def test_a_shorter_line_covers_a_longer_one(capsys, always_due):
    with ProgressLine(True, "rows") as line:
        line.show(1_000_000, words="many words that are long")
        line.show(5)
    longer, shorter = capsys.readouterr().err.rstrip("\n").split("\r")[1:]
    assert len(longer) == len(shorter)
    assert [clock_time(seconds) for seconds in (0, 59.6, 3661)] == ["0:00", "1:00", "1:01:01"]
