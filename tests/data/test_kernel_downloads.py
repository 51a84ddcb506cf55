"""The sets of `budgetron reproduce kernel` are downloaded over HTTP. A server on loopback simulates bad responses."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from budgetron.data.files import DataCorrupt, DataUnavailable
from budgetron.experiments.kernel import sets


@pytest.fixture
def german(tmp_path: Path, mirror, monkeypatch: pytest.MonkeyPatch) -> sets.KernelSet:
    """A small set that the mirror serves as kernel/german.mat, and that the registry expects."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)).astype(np.float32), np.where(rng.random(40) < 0.5, -1, 1)
    orders = np.array([rng.permutation(40) for _ in range(2)])
    parts = X.tobytes() + y.astype("|i1").tobytes() + orders.astype("<i4").tobytes()
    (tmp_path / "origin/kernel").mkdir()
    content = {"data": np.column_stack([y, X]), "ID_all": orders + 1}
    scipy.io.savemat(tmp_path / "origin/kernel/german.mat", content)
    entry = replace(sets.SETS["german"], n=40, d=3, digest=hashlib.sha256(parts).hexdigest())
    monkeypatch.setitem(sets.SETS, "german", entry)
    return entry


def cached_files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_set_is_downloaded_once_and_verified(german: sets.KernelSet, tmp_path: Path, mirror) -> None:
    first = sets.load(german, None)
    assert first.X.shape == (40, 3) and first.orders.shape == (2, 40)
    assert np.array_equal(sets.load(german, None).X, first.X)
    assert mirror.requests == ["kernel/german.mat"]
    assert cached_files(tmp_path) == ["german.mat"]


@pytest.mark.parametrize(
    "fault",
    [lambda b: (len(b), b[:-40] + bytes(40)), lambda b: (len(b) // 2, b[: len(b) // 2]), lambda b: (0, b"")],
    ids=["altered", "truncated, with the right length header", "empty"],
)
def test_a_download_that_differs_is_not_kept(german: sets.KernelSet, tmp_path: Path, mirror, fault) -> None:
    mirror.fault = fault
    with pytest.raises(DataCorrupt, match=r"^german from http://127\.0\.0\.1.*the download differs\. Nothing was kept"):
        sets.load(german, None)
    assert cached_files(tmp_path) == []
    mirror.fault = lambda content: (len(content), content)
    assert len(sets.load(german, None).y) == 40


def test_a_transfer_that_ends_early_is_not_kept(german: sets.KernelSet, tmp_path: Path, mirror) -> None:
    mirror.fault = lambda content: (len(content), content[: len(content) // 2])
    with pytest.raises(DataUnavailable, match=r"german could not be downloaded .*Nothing was kept.* --from"):
        sets.load(german, None)
    assert cached_files(tmp_path) == []


def test_a_missing_file_is_unavailable(german: sets.KernelSet, tmp_path: Path, mirror) -> None:
    (tmp_path / "origin/kernel/german.mat").unlink()
    with pytest.raises(DataUnavailable, match="german could not be downloaded"):
        sets.fetch(german, None)
    assert cached_files(tmp_path) == []
