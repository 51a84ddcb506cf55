"""`budgetron reproduce kernel`: verified data, runs that are not repeated, and a table beside the published values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from click.testing import CliRunner

from budgetron.cli import main
from budgetron.data.files import DataCorrupt, DataUnavailable
from budgetron.experiments.kernel import printed, runs, sets, table
from budgetron.experiments.kernel.rows import ROWS

N, D = 120, 4


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small sets under the names german (two classes) and dna (three), which the registry now expects."""
    rng = np.random.default_rng(0)
    for name, labels in (("german", [-1, 1]), ("dna", [1, 2, 3])):
        X = rng.normal(size=(N, D)).astype(np.float32)
        y = np.array(labels, dtype=np.int8)[np.digitize(X[:, 0], [0.0] if len(labels) == 2 else [-0.4, 0.4])]
        orders = np.array([rng.permutation(N) for _ in range(2)], dtype=np.int32)
        digest = hashlib.sha256(X.tobytes() + y.tobytes() + orders.tobytes()).hexdigest()
        monkeypatch.setitem(sets.SETS, name, replace(sets.SETS[name], n=N, d=D, budget=10, digest=digest))
        np.savez(tmp_path / f"{name}.npz", X=X, y=y, orders=orders)
    runs._loaded.cache_clear()
    return tmp_path


def test_both_file_formats_give_the_same_set(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    entry, other = sets.set_named("german"), tmp_path_factory.mktemp("mat")
    arrays = sets.load(entry, str(small))
    # As the study stores it: the label in the first column, and permutations that count from 1.
    content = {"data": np.column_stack([arrays.y, arrays.X]), "ID_all": arrays.orders + 1}
    scipy.io.savemat(other / "german.mat", content)
    from_mat = sets.load(entry, str(other))
    assert all(np.array_equal(getattr(arrays, name), getattr(from_mat, name)) for name in ("X", "y", "orders"))
    assert np.array_equal(np.sort(arrays.order(7)), np.arange(N)) and np.array_equal(arrays.order(1), arrays.orders[1])


def test_files_with_other_content_are_refused(small: Path) -> None:
    entry = sets.set_named("german")
    with np.load(small / "german.npz") as content:
        changed = dict(content)
    changed["X"][3, 1] += 1
    np.savez(small / "german.npz", **changed)
    with pytest.raises(DataCorrupt, match="SHA-256"):
        sets.load(entry, str(small))
    (small / "german.npz").write_bytes(b"nothing")
    with pytest.raises(DataCorrupt, match="cannot be read"):
        sets.load(entry, str(small))
    (small / "german.npz").unlink()
    with pytest.raises(DataUnavailable, match="--sets"):
        sets.load(entry, str(small))


def test_the_table_shows_the_means_of_the_runs(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("out")
    planned = runs.planned(["german", "dna"], 2)
    assert len(planned) == 2 * 2 * len(ROWS)
    for run in planned:
        assert not runs.is_done(run, out)
        run.perform(out, str(small))
        assert runs.is_done(run, out)
    kernel_table = table.table_of(out, ["german", "dna"])
    assert len(kernel_table.cells) == len(planned) // 2 and all(
        cell.orders == 2 for cell in kernel_table.cells.values()
    )
    # The table has the mean over the files, and its difference from the printed value, 20.7.
    files = [json.loads(run.path(out).read_text()) for run in planned if (run.set_name, run.row) == ("dna", "NOGD")]
    mean = 100 * np.mean([content["cells"][0]["error"] for content in files])
    assert kernel_table.cells["NOGD", "dna"].error == pytest.approx(mean)
    assert kernel_table.differences()["NOGD", "dna"] == pytest.approx(mean - 20.7)
    text = table.markdown(kernel_table)
    assert f"| {mean:.1f} ± " in text and "mean absolute difference" in text and "*majority*" in text


def test_mistakes_are_counted_as_in_the_study() -> None:
    assert runs.predicted(np.array([-1.0, 0.0, 2.0])).tolist() == [0, 1, 1]
    assert runs.predicted(np.array([[0.0, 0.0], [0.0, 1.0]])).tolist() == [0, 1]


def test_every_printed_row_is_run() -> None:
    assert printed.PRINTED.keys() == {row.name for row in ROWS if row.is_printed}
    assert printed.printed("FOGD", "a9a") == 17.4 and printed.printed("Budgetron", "a9a") is None
    for (row, name), reason in printed.REASONS.items():
        assert row in printed.PRINTED and name in (*printed.COLUMNS, "") and reason


def test_invalid_options_of_reproduce_kernel_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["reproduce", "kernel", "--sets", "nosuch", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2 and "german" in result.output
    empty = ["reproduce", "kernel", "--sets", "german", "--from", str(tmp_path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, empty)
    assert result.exit_code == 3 and "german.mat" in result.output
