"""Model files changed at random are rejected or harmless: no crash, no hang, no unbounded memory.

`fuzz_worker` does the work, in a process with a memory limit. A crash there fails the test, and leaves the file that
caused it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from saved_models import small_models

WORKER = Path(__file__).parent / "fuzz_worker.py"
PROCESSES = 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folders = [tmp_path_factory.mktemp(f"models-{number}") for number in range(PROCESSES)]
    for name, model in small_models().items():
        for folder in folders:
            model.save(folder / f"{name}.budgetron")
    return folders


def fuzz(kind, folders, count):
    """Return how many of `count` changed files were rejected, and how many accepted."""
    share = count // PROCESSES
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen([sys.executable, "-X", "faulthandler", WORKER, kind, folder, str(number * share), str(share)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for number, folder in enumerate(folders)
    ]  # fmt: skip
    rejected = accepted = 0
    for run, folder in zip(runs, folders, strict=True):
        out, error = run.communicate()
        assert run.returncode == 0, f"{error[-3000:]}\nthe file is {folder / 'now'}"
        outcomes = json.loads(out)
        rejected, accepted = rejected + outcomes["rejected"], accepted + outcomes["accepted"]
    return rejected, accepted


def test_files_with_changed_bytes_are_rejected(folders):
    assert fuzz("bytes", folders, 2000) == (2000, 0)


def test_files_with_changed_contents_and_a_right_digest_are_rejected_or_harmless(folders):
    rejected, accepted = fuzz("contents", folders, 300)
    assert rejected + accepted == 300 and rejected > accepted > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_files_with_changed_bytes_are_rejected(folders):
    assert fuzz("bytes", folders, 100_000) == (100_000, 0)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_files_with_changed_contents_are_rejected_or_harmless(folders):
    rejected, accepted = fuzz("contents", folders, 12_000)
    assert rejected + accepted == 12_000 and rejected > accepted > 0
