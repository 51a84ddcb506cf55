"""Model files with a correct digest and invalid content: each is rejected with a `ModelFileError`."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np
import pytest
from saved_models import small_models

import budgetron
from budgetron import graphs
from budgetron.engine import native
from budgetron.errors import InputError, ModelFileError
from budgetron.persist.container import FORMAT, MAGIC, pack, unpack


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    files = {}
    for name, model in small_models().items():
        model.save(folder / name)
        files[name] = (folder / name).read_bytes()
    return files


def check_rejected(path, content, *words, **more):
    """Assert that loading this content fails with a message that contains the words."""
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        budgetron.load(path, **more)
    sentence = str(caught.value)
    assert sentence.startswith("load: ") and " must be " in sentence and "; got " in sentence
    for word in words:
        assert word in sentence, sentence


def with_change(content, change):
    """The file after `change(record, arrays)`, with a correct digest."""
    text, arrays = unpack(content)
    record = json.loads(text)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(record, arrays)
    return pack(json.dumps(record).encode(), arrays)


# Changes for `with_change`. `unrelated_sum` is a change; each of the other functions below returns a change.


def set_entry(name, value, at=0):
    def change(record, arrays):
        arrays[name].reshape(-1)[at] = value

    return change


def fill_array(name, value):
    def change(record, arrays):
        arrays[name][...] = value

    return change


def set_field(value, *path):
    def change(record, arrays):
        for name in path[:-1]:
            record = record[name]
        record[path[-1]] = value

    return change


def drop_array(name):
    return lambda record, arrays: arrays.pop(name)


def shorten_array(name):
    return lambda record, arrays: arrays.update({name: arrays[name][:-1]})


def repeat_first(name):
    def change(record, arrays):
        arrays[name][1] = arrays[name][0]

    return change


def unrelated_sum(record, arrays):
    """Add a sum over tasks to a model whose graph needs none."""
    record["settings"]["parameters"]["max_task_rows"] = 99
    arrays["state.sum"] = np.zeros((1, *arrays["state.sum"].shape[1:]))
    for name in ("cluster", "stamp", "place"):
        arrays[f"state.sum_{name}"] = np.zeros(1, dtype=np.int64)


INVALID = [
    # stored examples
    ("inverse", set_entry("state.key", 5), "5 tasks"),
    ("inverse", set_entry("state.key", -1), "5 tasks"),
    ("inverse", set_entry("state.key", 2**62), "5 tasks"),
    ("inverse", set_entry("state.cluster", 9), "cluster"),
    ("random", set_entry("state.key", 2**63 - 1), "key"),
    ("random", set_entry("state.cluster", 12), "cluster"),
    ("random", repeat_first("state.arrival"), "arrival"),
    ("random", set_entry("state.arrival", 10**6), "arrival"),
    ("random", set_entry("state.arrival", -1), "arrival"),
    ("random", set_entry("state.n_seen", -1), "n_seen"),
    ("random", set_entry("state.n_seen", 2**63 - 1), "n_seen"),
    ("random", set_entry("state.n_mistakes", 121), "n_mistakes"),
    ("random", set_field(5, "settings", "capacity"), "at most 5"),
    ("random", set_field(0, "settings", "capacity"), "capacity"),
    ("random", shorten_array("state.key"), "shape"),
    ("random", drop_array("state.coef"), "without 'coef'"),
    ("random", lambda record, arrays: arrays.update({"state.more": np.zeros(1)}), "with 'more'"),
    ("random", lambda record, arrays: arrays.update({"other": np.zeros(1)}), "tensors"),
    ("random", set_entry("state.coef", np.nan), "finite"),
    ("random", set_entry("state.scale", 2.0), "scale"),
    # rows
    ("random", set_entry("state.data", np.inf), "finite"),
    ("random", set_entry("state.data", 1e200), "stored rows"),
    ("random", set_entry("state.indices", 12, -1), "columns"),
    ("random", set_entry("state.indices", -1), "columns"),
    ("random", repeat_first("state.indices"), "ascending"),
    ("random", set_entry("state.indptr", 1), "row starts"),
    ("random", set_entry("state.indptr", 2**62, -1), "row starts"),
    ("random", set_entry("state.indptr", -(2**63), 1), "row starts"),
    ("random", set_field(3, "settings", "n_features"), "columns"),
    ("inverse", set_field(11, "settings", "n_features"), "shape"),
    ("inverse", lambda _, arrays: arrays.update({"state.rows": arrays["state.rows"].astype("float32")}), "float64"),
    ("random", set_field(3, "settings", "pool"), "non-zeros"),
    # the Gram matrix of projections
    ("inverse", set_entry("state.inverse_diagonal", -1.0), "inverse_diagonal"),
    ("inverse", set_entry("state.inverse", 0.0), "diagonal"),
    ("factor", repeat_first("state.factor_order"), "factor_order"),
    ("factor", set_entry("state.factor_order", 6), "factor_order"),
    ("factor", set_entry("state.factor_age", -1), "factor_age"),
    ("factor", set_entry("state.factor", -1.0), "diagonal"),
    ("nystrom", set_field(0.5, "settings", "parameters", "radius"), "radius"),
    ("forgetron", set_entry("state.q", 1e9), "state.q"),
    ("forgetron", set_entry("state.scale", 0.0), "scale"),
    # rows of tasks
    ("shared", repeat_first("state.table_key"), "duplicates"),
    ("shared", set_entry("state.table_stamp", 10**6), "table_stamp"),
    ("shared", set_entry("state.table_place", 99), "positions"),
    ("shared", set_entry("state.sum_place", 99, -1), "positions"),
    ("shared", set_field(2, "settings", "parameters", "max_task_rows"), "at most 2 rows"),
    ("shared-edges", set_entry("state.table_key", 77), "5 tasks"),
    ("shared-edges", unrelated_sum, "state.sum must be empty"),
    # beliefs
    ("budgetron", set_entry("state.part_index", 99, -1), "part_index"),
    ("budgetron", set_entry("state.part_index", -1), "part_index"),
    ("budgetron", repeat_first("state.part_index"), "part_index"),
    ("budgetron", set_entry("state.belief_weight", 0.0), "belief_weight"),
    ("budgetron", set_entry("state.belief_weight", 0.99), "belief_weight"),
    ("budgetron", set_entry("state.part_idle", -1), "part_idle"),
    ("budgetron", set_entry("state.part_idle", 10**6), "part_idle"),
    ("budgetron", set_entry("state.scaler_variance", -1.0), "scaler_variance"),
    ("budgetron", set_entry("state.scaler_count", 10**6), "scaler_count"),
    ("budgetron", set_entry("state.filter0_covariance", -1.0, -1), "variances"),
    ("budgetron", set_entry("state.filter0_weights", np.inf), "finite"),
    ("budgetron", repeat_first("state.row_id"), "twice"),
    ("budgetron", set_entry("state.row_common", 1), "row_common"),
    ("budgetron", set_entry("state.row_values", np.nan), "finite"),
    ("budgetron", shorten_array("state.row_values"), "shape"),
    ("budgetron", set_field(2, "settings", "parameters", "max_task_rows"), "row_limit must be 2"),
    ("budgetron", set_entry("state.row_limit", 3), "row_limit"),
    ("budgetron", set_entry("state.spare_bytes", -1), "spare_bytes"),
    ("budgetron", fill_array("state.part_idle", 1), "at least one of them 0"),
    ("budgetron", set_entry("state.adagrad0_frequencies", 5000), "adagrad0_frequencies"),
    ("budgetron", set_entry("state.combination_weight", 0.9), "combination_weight"),
    ("budgetron", set_entry("state.combination_beta", np.nan), "finite"),
    ("budgetron", set_entry("state.combination_matrix", 0.031), "at most 0.03 on the diagonal"),
    ("budgetron", set_entry("state.combination_matrix", 0.0), "variances above 0"),
    ("budgetron", shorten_array("state.combination_beta"), "shape"),
    ("budgetron", set_entry("state.calibration_scale", 9.0), "calibration_scale"),
    ("budgetron", set_entry("state.calibration_variance", 0.0), "calibration_variance"),
    ("budgetron", set_entry("state.calibration_lapse", 1.0), "calibration_lapse"),
    ("budgetron", set_entry("state.calibration_weight", 0.9), "calibration_weight"),
    ("budgetron", set_entry("state.calibration_lapse_step", 0.0), "calibration_lapse_step"),
    ("budgetron", set_field(2**40, "settings", "parameters", "latent"), "latent"),
    ("budgetron", set_field(-1, "settings", "parameters", "frequencies"), "frequencies"),
    ("budgetron", set_field(64, "settings", "parameters", "cells"), "cells"),
    ("budgetron", set_field(False, "settings", "parameters", "shared"), "as the graph"),
    ("budgetron", set_field([], "settings", "parameters", "filters"), "part_index"),
    ("budgetron", set_field([[1, 1]], "settings", "parameters", "filters"), "filters"),
    ("budgetron", set_field({"more": 1}, "settings", "parameters"), "more"),
    ("budgetron-edges", set_entry("state.row_id", 77), "graph"),
    ("budgetron-edges", set_field(2, "settings", "parameters", "max_task_rows"), "at least 5"),
    ("budgetron-sparse", set_field(0, "settings", "parameters", "cells"), "cells"),
    ("budgetron-sparse", set_field(2**31, "settings", "parameters", "cells"), "shape"),
    ("budgetron-sparse", set_entry("state.table_cells", -1.0), "table_cells"),
    ("budgetron-sparse", set_entry("state.table_cells", -1.0, -1), "table_cells"),
    ("budgetron-sparse", set_entry("state.table_cells", 1e38, 1), "masses"),
    ("budgetron-sparse", set_field(1, "settings", "parameters", "pairs"), "pairs"),
    ("budgetron", set_field(16, "settings", "parameters", "pairs"), "pairs"),
    ("budgetron", set_entry("state.row_count", 16), "row_count"),
    ("budgetron-sparse", set_entry("state.table_tags", 2**16), "table_tags"),
    ("budgetron-sparse", set_entry("state.table_tags", -1), "table_tags"),
    ("budgetron-sparse", set_entry("state.table_total", 0.0), "table_total"),
    ("budgetron-sparse", set_entry("state.table_bayes_squares", 0.0), "table_bayes_squares"),
    ("budgetron-edges", set_field(12, "settings", "parameters", "bins"), "bins"),
    ("budgetron-edges", set_field(1, "settings", "parameters", "bin_cells"), "bin_cells"),
    ("budgetron-edges", set_entry("state.bins_rows", -1), "bins_rows"),
    ("budgetron-edges", set_entry("state.bins_rows", 10**6), "bins_rows"),
    ("budgetron-edges", set_entry("state.bins_slots", -1.0), "bins_slots"),
    ("budgetron-edges", set_entry("state.bins_slots", -1.0, -1), "bins_slots"),
    ("budgetron-edges", set_entry("state.bins_total", 0.0), "bins_total"),
    ("budgetron-edges", set_entry("state.bins_bayes", 0.0, -1), "bins_bayes"),
    ("budgetron-first-rows", set_entry("state.first_indptr", 1), "first_indptr"),
    ("budgetron-first-rows", set_entry("state.first_indptr", 2**62, 3), "first_indptr"),
    ("budgetron-first-rows", set_entry("state.first_indices", 12, -1), "first_indices"),
    ("budgetron-first-rows", repeat_first("state.first_indices"), "first_indices"),
    ("budgetron-first-rows", set_entry("state.first_data", 1e80), "first_data"),
    ("budgetron-first-rows", set_entry("state.first_codes", 7), "first_codes"),
    ("budgetron-first-rows", set_entry("state.first_codes", -1), "first_codes"),
    ("budgetron-first-rows", set_entry("state.first_weights", -1.0), "first_weights"),
    ("budgetron-first-rows", set_entry("state.first_clusters", 9), "first_task_ids"),
    ("budgetron-first-rows", set_entry("state.n_seen", 14), "first_codes"),
    ("budgetron-first-rows", drop_array("state.first_codes"), "first_codes"),
    ("budgetron-first-rows", set_field(False, "settings", "parameters", "first_rows"), "first_"),
    ("budgetron-first-rows", set_field(2**39, "settings", "parameters", "limit"), "needs at most"),
    ("budgetron-first-rows", set_field(0, "settings", "parameters", "limit"), "first_rows"),
    ("budgetron-first-rows", set_field([1, 2], "settings", "parameters", "frequent_columns"), "first_rows"),
    ("budgetron-frequent-columns", set_field([3, 1], "settings", "parameters", "frequent_columns"), "ascending"),
    ("budgetron-frequent-columns", set_field([1, 12], "settings", "parameters", "frequent_columns"), "ascending"),
    ("budgetron-frequent-columns", set_field([-1], "settings", "parameters", "frequent_columns"), "frequent_columns"),
    ("budgetron-frequent-columns", set_field([1, 2], "settings", "parameters", "frequent_columns"), "shape"),
    ("budgetron-frequent-columns", set_field([], "settings", "parameters", "frequent_columns"), "bins"),
    ("budgetron", set_field([1], "settings", "parameters", "frequent_columns"), "frequent_columns"),
    # settings
    ("random", set_field("os.system", "learner"), "learner"),
    ("random", set_field("Forgetron", "learner"), "parameters"),
    ("random", set_field("more", "settings", "more"), "more"),
    ("random", set_field({"kind": "own", "code": "x"}, "settings", "kernel"), "own"),
    ("random", set_field(None, "settings", "kernel"), "kernel"),
    ("random", set_field("scale", "settings", "kernel", "gamma"), "gamma"),
    ("random", set_field(0.0, "settings", "kernel", "gamma"), "gamma"),
    ("factor", set_field(33, "settings", "kernel", "degree"), "degree"),
    ("factor", set_field(-1.0, "settings", "kernel", "bias"), "bias"),
    ("random", set_field("float16", "settings", "dtype"), "dtype"),
    ("random", set_field(2, "settings", "n_outputs"), "n_outputs"),
    ("random", set_field(3, "settings", "n_outputs"), "labels"),
    ("inverse", set_field(-1.0, "settings", "parameters", "eta"), "eta"),
    ("random", set_field(2**64, "settings", "parameters", "seed"), "seed"),
    ("random", set_field(0.5, "settings", "eta"), "in one place"),
    ("random", set_field({"more": 1}, "settings", "parameters"), "more"),
    ("random", set_field("gpu", "parameters", "engine"), "engine"),
    ("random", set_field(3, "parameters", "graph"), "graph"),
    ("random", set_field(["x"] * 3, "feature_names"), "12 strings"),
    # labels and names
    ("random", set_field([1, 0], "labels", "values"), "sorted"),
    ("random", set_field([1, 1], "labels", "values"), "sorted"),
    ("random", set_field([0], "labels", "values"), "values"),
    ("random", set_field(["a", 1], "labels", "values"), "labels"),
    ("random", set_field("<U9999999", "labels", "dtype"), "labels"),
    ("random", set_field("V8", "labels", "dtype"), "dtype"),
    ("random", set_field([0, ["decimal", "1e999999999"]], "labels", "values"), "dtype"),
    ("random", set_field([7], "names"), "names"),
    ("random", set_field(["ann", "ann"], "names"), "duplicates"),
    ("random", set_field([["enum", "os"]], "names"), "kind"),
    ("random", set_field([10**4000], "names"), "4000 digits"),
    ("random", set_field([["fraction", [1, 10**4000]]], "names"), "4000 digits"),
    # columns of files
    ("columns", set_entry("columns.center", np.nan), "finite"),
    ("columns", set_entry("columns.center", 1e150), "columns.center"),
    ("columns", set_entry("columns.count", -1.0), "counts"),
    ("columns", set_entry("columns.count", 0.5), "counts"),
    ("columns", set_entry("columns.count", 1e300), "counts"),
    ("columns", set_entry("columns.total", 1e200), "columns.total"),
    ("columns", set_entry("columns.squares", -1.0), "squares"),
    ("columns", shorten_array("columns.squares"), "shape"),
    ("columns", drop_array("columns.total"), "without 'total'"),
    ("columns", lambda record, arrays: arrays.update({"columns.more": np.zeros(1)}), "with 'more'"),
    ("columns", set_field(None, "columns"), "columns"),
    ("random", lambda record, arrays: arrays.update({"columns.center": np.zeros(1)}), "columns"),
    ("columns", set_field("more", "columns", "more"), "more"),
    ("columns", set_field("code", "columns", "columns", 0, "kind"), "kind"),
    ("columns", set_field("colour", "columns", "columns", 0, "name"), "different names"),
    ("columns", set_field("task", "columns", "label"), "different names"),
    ("columns", set_field("colour", "columns", "offset"), "different names"),
    ("columns", set_field("x" * 5000, "columns", "label"), "label"),
    ("columns", set_field("x" * 5000, "columns", "columns", 0, "name"), "name"),
    ("columns", set_field("text", "columns", "columns", 0, "kind"), "gaps"),
    ("columns", set_field(True, "columns", "columns", 0, "clock"), "clock"),
    ("columns", set_field(["a"], "columns", "columns", 0, "values"), "values"),
    ("columns", set_field(["a", "a"], "columns", "columns", 1, "values"), "without duplicates"),
    ("columns", set_field(["a"] * 5000, "columns", "columns", 1, "values"), "values"),
    ("columns", set_field([1], "columns", "columns", 1, "values"), "values"),
    ("columns", set_field(None, "columns", "columns", 1, "values"), "hashed"),
    ("columns", set_field(["a"], "columns", "columns", 1, "values"), "columns of X"),
    ("columns", set_field([], "columns", "columns"), "columns of X"),
    ("columns", set_field("svmlight", "columns", "layout"), "layout"),
    ("columns", set_field("exe", "columns", "layout"), "layout"),
    ("columns", set_field(2**18, "columns", "hashed"), "hashed"),
    ("columns-sparse", set_field(0, "columns", "hashed"), "hashed"),
    ("columns-sparse", set_field(2**40, "columns", "hashed"), "hashed"),
    ("columns-sparse", set_field(2**17, "columns", "hashed"), "columns of X"),
    # graphs
    ("inverse", set_entry("graph.0.component", 2**40), "component"),
    ("inverse", set_entry("graph.0.component", -1), "component"),
    ("inverse", set_entry("graph.0.component", 2), "component"),
    ("inverse", set_entry("graph.0.similarity", np.nan), "finite"),
    ("inverse", set_entry("graph.0.similarity", 1e308), "entries"),
    ("inverse", set_entry("graph.0.similarity", -5.0), "semidefinite"),
    ("inverse", set_entry("graph.0.similarity", 5.0, 1), "symmetric"),
    ("inverse", set_field(["ann"] * 5, "graphs", 0, "tasks"), "twice"),
    ("inverse", set_field(["ann"], "graphs", 0, "tasks"), "shape"),
    ("forgetron", set_entry("graph.0.indices", 10**6), "columns"),
    ("forgetron", set_entry("graph.0.indptr", 10**6, 5), "row starts"),
    ("forgetron", set_entry("graph.0.data", -9.0), "graph"),
    ("forgetron", set_field(True, "graphs", 0, "singular"), "Laplacian"),
    ("random", set_entry("graph.0.clusters", 9), "clusters"),
    ("random", set_field(-1.0, "graphs", 0, "coupling"), "coupling"),
    ("random", set_field("nan", "graphs", 0, "coupling"), "coupling"),
    ("random", set_field([], "graphs"), "graphs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "word"), INVALID, ids=[f"{n}-{case[0]}-{case[2]}" for n, case in enumerate(INVALID)]
)
def test_invalid_content_is_rejected(name, change, word, files, tmp_path):
    check_rejected(tmp_path / "m", with_change(files[name], change), word)


@pytest.mark.parametrize("name", ["random", "inverse", "shared"])
def test_a_small_file_that_asks_for_much_memory_is_rejected(name, files, tmp_path):
    content = with_change(files[name], set_field(2**50, "settings", "capacity"))
    check_rejected(tmp_path / "m", content, "bytes", "needs", "max_bytes")


def test_a_small_budgetron_file_that_asks_for_much_memory_is_rejected(files, tmp_path):
    """Sizes must agree with the arrays in the file.

    The file contains the number of the frequencies, but not the frequencies, so `max_bytes` limits their memory.
    """
    sizes = {
        "filter_frequencies": (2**16, "at most frequencies"), "own_cells": (2**40, "shape"),
        "fourier_cells": (2**40, "shape"), "short_rows": (2**40, "shape"),
    }  # fmt: skip
    for name, (value, word) in sizes.items():
        content = with_change(files["budgetron"], set_field(value, "settings", "parameters", name))
        check_rejected(tmp_path / "m", content, word)
    many = with_change(files["budgetron"], set_field(2**20, "settings", "parameters", "frequencies"))
    check_rejected(tmp_path / "m", many, "needs", "max_bytes", max_bytes="2 MiB")


def test_a_damaged_container_is_rejected(files, tmp_path):
    """A file has a magic and a format number of 8 bytes each, a SHA-256 of 32 bytes, and the safetensors payload."""
    content = files["random"]
    check_rejected(tmp_path / "m", b"", "a Budgetron model")
    check_rejected(tmp_path / "m", content[:40], "unchanged since it was saved")
    check_rejected(tmp_path / "m", b"PK" + content, "a Budgetron model")
    check_rejected(tmp_path / "m", content + b"\0", "SHA-256")
    check_rejected(tmp_path / "m", content[:100], "SHA-256")
    newer = _with_format(content, FORMAT + 1)
    check_rejected(tmp_path / "m", newer, f"format {FORMAT + 1}", "newer")
    rest, head = content[48:], content[:16]
    for payload in (b"", b"\xff" * 8, b"\0" * 8, (2**63).to_bytes(8, "little") + b"{}", rest[:-1], rest + b"\0"):
        check_rejected(tmp_path / "m", head + sha256(head + payload).digest() + payload, "safetensors")
    check_rejected(tmp_path / "m", pack(b"{", {}), "settings")
    check_rejected(tmp_path / "m", pack(b"[" * 100_000, {}), "settings")
    check_rejected(tmp_path / "m", pack(b"\xff\xfe", {}), "settings")
    check_rejected(tmp_path / "m", pack(b"{}", {"c": np.zeros(1, dtype=np.complex64)}), "complex64")


def _with_format(content, number):
    head = MAGIC + number.to_bytes(8, "little")
    return head + sha256(head + content[48:]).digest() + content[48:]


def test_a_newer_version_is_suggested_only_for_a_higher_format(files):
    with pytest.raises(ModelFileError, match="format 0") as refused:
        unpack(_with_format(files["random"], 0))
    assert "newer" not in str(refused.value) and "changed or truncated" in str(refused.value)


def test_large_files_and_paths_without_a_file_are_rejected(files, tmp_path):
    (tmp_path / "m").write_bytes(files["forgetron"])
    check_rejected(tmp_path / "m", files["forgetron"], "at most 1000 bytes", "max_bytes", max_bytes=1000)
    check_rejected(tmp_path / "m", files["budgetron"], "max_bytes", max_bytes="20 KiB")
    with pytest.raises(ModelFileError, match="regular file"):
        budgetron.load(tmp_path)
    with pytest.raises(ModelFileError, match="regular file"):
        budgetron.load("/dev/zero")
    with pytest.raises(FileNotFoundError):
        budgetron.load(tmp_path / "nothing")
    for wrong in ({"max_bytes": None}, {"max_bytes": 0}, {"max_bytes": "much"}, {"engine": "gpu"}):
        with pytest.raises(InputError):
            budgetron.load(tmp_path / "m", **wrong)


def test_a_description_with_a_huge_component_number_is_rejected_before_allocating():
    described = graphs.from_edges([("a", "b")]).describe()
    with pytest.raises(InputError, match="component"):
        graphs.from_description(described | {"component": np.array([0, 2**40])})


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize(
    ("name", "array", "value"),
    [("inverse", "key", 99), ("shared-edges", "table_key", -1), ("random", "indices", 10**6),
     ("random", "indptr", 10**6),
     ("budgetron", "part_index", 99)],
)  # fmt: skip
def test_the_core_itself_rejects_indices_out_of_range(name, array, value):
    engine = small_models()[name]._engine
    state = {name: np.array(values) if np.ndim(values) else values for name, values in engine.state().items()}
    state[array][-1] = value
    with pytest.raises(ValueError):
        native.Engine.restore(engine.settings, state)
