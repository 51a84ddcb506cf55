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
from budgetron.persist.container import FORMAT, MAGIC, packed, unpacked


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    files = {}
    for name, model in small_models().items():
        model.save(folder / name)
        files[name] = (folder / name).read_bytes()
    return files


def refused(path, content, *words, **more):
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        budgetron.load(path, **more)
    sentence = str(caught.value)
    assert sentence.startswith("load: ") and " must be " in sentence and "; got " in sentence
    for word in words:
        assert word in sentence, sentence


def corrupted(content, change):
    """The file after `change(record, arrays)`, with a correct digest."""
    text, arrays = unpacked(content)
    record = json.loads(text)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(record, arrays)
    return packed(json.dumps(record).encode(), arrays)


def put(name, value, at=0):
    def change(record, arrays):
        arrays[name].reshape(-1)[at] = value

    return change


def fill(name, value):
    def change(record, arrays):
        arrays[name][...] = value

    return change


def say(value, *path):
    def change(record, arrays):
        for name in path[:-1]:
            record = record[name]
        record[path[-1]] = value

    return change


def drop(name):
    return lambda record, arrays: arrays.pop(name)


def cut(name):
    return lambda record, arrays: arrays.update({name: arrays[name][:-1]})


def twice(name):
    def change(record, arrays):
        arrays[name][1] = arrays[name][0]

    return change


def unrelated_sum(record, arrays):
    record["settings"]["parameters"]["max_task_rows"] = 99
    arrays["state.sum"] = np.zeros((1, *arrays["state.sum"].shape[1:]))
    for name in ("cluster", "stamp", "place"):
        arrays[f"state.sum_{name}"] = np.zeros(1, dtype=np.int64)


INVALID = [
    # stored examples
    ("inverse", put("state.key", 5), "5 tasks"),
    ("inverse", put("state.key", -1), "5 tasks"),
    ("inverse", put("state.key", 2**62), "5 tasks"),
    ("inverse", put("state.cluster", 9), "cluster"),
    ("random", put("state.key", 2**63 - 1), "key"),
    ("random", put("state.cluster", 12), "cluster"),
    ("random", twice("state.arrival"), "arrival"),
    ("random", put("state.arrival", 10**6), "arrival"),
    ("random", put("state.arrival", -1), "arrival"),
    ("random", put("state.n_seen", -1), "n_seen"),
    ("random", put("state.n_seen", 2**63 - 1), "n_seen"),
    ("random", put("state.n_mistakes", 121), "n_mistakes"),
    ("random", say(5, "settings", "capacity"), "at most 5"),
    ("random", say(0, "settings", "capacity"), "capacity"),
    ("random", cut("state.key"), "shape"),
    ("random", drop("state.coef"), "without 'coef'"),
    ("random", lambda record, arrays: arrays.update({"state.more": np.zeros(1)}), "with 'more'"),
    ("random", lambda record, arrays: arrays.update({"other": np.zeros(1)}), "tensors"),
    ("random", put("state.coef", np.nan), "finite"),
    ("random", put("state.scale", 2.0), "scale"),
    # rows
    ("random", put("state.data", np.inf), "finite"),
    ("random", put("state.data", 1e200), "stored rows"),
    ("random", put("state.indices", 12, -1), "columns"),
    ("random", put("state.indices", -1), "columns"),
    ("random", twice("state.indices"), "ascending"),
    ("random", put("state.indptr", 1), "row starts"),
    ("random", put("state.indptr", 2**62, -1), "row starts"),
    ("random", put("state.indptr", -(2**63), 1), "row starts"),
    ("random", say(3, "settings", "n_features"), "columns"),
    ("inverse", say(11, "settings", "n_features"), "shape"),
    ("inverse", lambda _, arrays: arrays.update({"state.rows": arrays["state.rows"].astype("float32")}), "float64"),
    ("random", say(3, "settings", "pool"), "non-zeros"),
    # the Gram matrix of projections
    ("inverse", put("state.inverse_diagonal", -1.0), "inverse_diagonal"),
    ("inverse", put("state.inverse", 0.0), "diagonal"),
    ("factor", twice("state.factor_order"), "factor_order"),
    ("factor", put("state.factor_order", 6), "factor_order"),
    ("factor", put("state.factor_age", -1), "factor_age"),
    ("factor", put("state.factor", -1.0), "diagonal"),
    ("forgetron", put("state.q", 1e9), "state.q"),
    ("forgetron", put("state.scale", 0.0), "scale"),
    # rows of tasks
    ("shared", twice("state.table_key"), "twice"),
    ("shared", put("state.table_stamp", 10**6), "table_stamp"),
    ("shared", put("state.table_place", 99), "places"),
    ("shared", put("state.sum_place", 99, -1), "places"),
    ("shared", say(2, "settings", "parameters", "max_task_rows"), "at most 2 rows"),
    ("shared-edges", put("state.table_key", 77), "5 tasks"),
    ("shared-edges", lambda *both: unrelated_sum(*both), "state.sum must be empty"),
    # beliefs
    ("budgetron", put("state.part_index", 99, -1), "part_index"),
    ("budgetron", put("state.part_index", -1), "part_index"),
    ("budgetron", twice("state.part_index"), "part_index"),
    ("budgetron", put("state.belief_weight", 0.0), "belief_weight"),
    ("budgetron", put("state.belief_weight", 0.99), "belief_weight"),
    ("budgetron", put("state.part_idle", -1), "part_idle"),
    ("budgetron", put("state.part_idle", 10**6), "part_idle"),
    ("budgetron", put("state.scaler_variance", -1.0), "scaler_variance"),
    ("budgetron", put("state.scaler_count", 10**6), "scaler_count"),
    ("budgetron", put("state.filter0_covariance", -1.0, -1), "variances"),
    ("budgetron", put("state.filter0_weights", np.inf), "finite"),
    ("budgetron", twice("state.row_id"), "twice"),
    ("budgetron", put("state.row_common", 1), "row_common"),
    ("budgetron", put("state.row_values", np.nan), "finite"),
    ("budgetron", cut("state.row_values"), "shape"),
    ("budgetron", say(2, "settings", "parameters", "max_task_rows"), "row_limit must be 2"),
    ("budgetron", put("state.row_limit", 3), "row_limit"),
    ("budgetron", put("state.spare_bytes", -1), "spare_bytes"),
    ("budgetron", fill("state.part_idle", 1), "some part has weight"),
    ("budgetron", put("state.adagrad0_frequencies", 5000), "adagrad0_frequencies"),
    ("budgetron", put("state.calibration_scale", 9.0), "calibration_scale"),
    ("budgetron", put("state.calibration_variance", 0.0), "calibration_variance"),
    ("budgetron", say(2**40, "settings", "parameters", "latent"), "latent"),
    ("budgetron", say(-1, "settings", "parameters", "frequencies"), "frequencies"),
    ("budgetron", say(64, "settings", "parameters", "cells"), "cells"),
    ("budgetron", say(False, "settings", "parameters", "shared"), "as the graph"),
    ("budgetron", say([], "settings", "parameters", "filters"), "part_index"),
    ("budgetron", say([[1, 1]], "settings", "parameters", "filters"), "filters"),
    ("budgetron", say({"more": 1}, "settings", "parameters"), "more"),
    ("budgetron-edges", put("state.row_id", 77), "graph"),
    ("budgetron-edges", say(2, "settings", "parameters", "max_task_rows"), "at least 5"),
    ("budgetron-sparse", say(0, "settings", "parameters", "cells"), "cells"),
    ("budgetron-sparse", say(2**31, "settings", "parameters", "cells"), "shape"),
    ("budgetron-sparse", put("state.table_cells", -1.0), "table_cells"),
    ("budgetron-sparse", put("state.table_cells", -1.0, -1), "table_cells"),
    ("budgetron-sparse", put("state.table_seen", 256), "table_seen"),
    ("budgetron-sparse", put("state.table_total", 0.0), "table_total"),
    ("budgetron-sparse", put("state.table_bayes_squares", 0.0), "table_bayes_squares"),
    # settings
    ("random", say("os.system", "learner"), "learner"),
    ("random", say("Forgetron", "learner"), "parameters"),
    ("random", say("more", "settings", "more"), "more"),
    ("random", say({"kind": "own", "code": "x"}, "settings", "kernel"), "own"),
    ("random", say(None, "settings", "kernel"), "kernel"),
    ("random", say("scale", "settings", "kernel", "gamma"), "gamma"),
    ("random", say(0.0, "settings", "kernel", "gamma"), "gamma"),
    ("factor", say(33, "settings", "kernel", "degree"), "degree"),
    ("factor", say(-1.0, "settings", "kernel", "bias"), "bias"),
    ("random", say("float16", "settings", "dtype"), "dtype"),
    ("random", say(2, "settings", "n_outputs"), "n_outputs"),
    ("random", say(3, "settings", "n_outputs"), "labels"),
    ("inverse", say(-1.0, "settings", "parameters", "eta"), "eta"),
    ("random", say(2**64, "settings", "parameters", "seed"), "seed"),
    ("random", say(0.5, "settings", "eta"), "in one place"),
    ("random", say({"more": 1}, "settings", "parameters"), "more"),
    ("random", say("gpu", "parameters", "engine"), "engine"),
    ("random", say(3, "parameters", "graph"), "graph"),
    ("random", say(["x"] * 3, "feature_names"), "12 strings"),
    # labels and names
    ("random", say([1, 0], "labels", "values"), "sorted"),
    ("random", say([1, 1], "labels", "values"), "sorted"),
    ("random", say([0], "labels", "values"), "values"),
    ("random", say(["a", 1], "labels", "values"), "labels"),
    ("random", say("<U9999999", "labels", "dtype"), "labels"),
    ("random", say("V8", "labels", "dtype"), "dtype"),
    ("random", say([0, ["decimal", "1e999999999"]], "labels", "values"), "dtype"),
    ("random", say([7], "names"), "names"),
    ("random", say(["ann", "ann"], "names"), "twice"),
    ("random", say([["enum", "os"]], "names"), "kind"),
    # columns of files
    ("columns", put("columns.center", np.nan), "finite"),
    ("columns", put("columns.center", 1e150), "columns.center"),
    ("columns", put("columns.count", -1.0), "counts"),
    ("columns", put("columns.count", 0.5), "counts"),
    ("columns", put("columns.count", 1e300), "counts"),
    ("columns", put("columns.total", 1e200), "columns.total"),
    ("columns", put("columns.squares", -1.0), "squares"),
    ("columns", cut("columns.squares"), "shape"),
    ("columns", drop("columns.total"), "without 'total'"),
    ("columns", lambda record, arrays: arrays.update({"columns.more": np.zeros(1)}), "with 'more'"),
    ("columns", say(None, "columns"), "columns"),
    ("random", lambda record, arrays: arrays.update({"columns.center": np.zeros(1)}), "columns"),
    ("columns", say("more", "columns", "more"), "more"),
    ("columns", say("code", "columns", "columns", 0, "kind"), "kind"),
    ("columns", say("colour", "columns", "columns", 0, "name"), "different names"),
    ("columns", say("task", "columns", "label"), "different names"),
    ("columns", say("x" * 5000, "columns", "label"), "label"),
    ("columns", say("x" * 5000, "columns", "columns", 0, "name"), "name"),
    ("columns", say("text", "columns", "columns", 0, "kind"), "gaps"),
    ("columns", say(True, "columns", "columns", 0, "clock"), "clock"),
    ("columns", say(["a"], "columns", "columns", 0, "values"), "values"),
    ("columns", say(["a", "a"], "columns", "columns", 1, "values"), "none of them twice"),
    ("columns", say(["a"] * 5000, "columns", "columns", 1, "values"), "values"),
    ("columns", say([1], "columns", "columns", 1, "values"), "values"),
    ("columns", say(None, "columns", "columns", 1, "values"), "hashed"),
    ("columns", say(["a"], "columns", "columns", 1, "values"), "columns of X"),
    ("columns", say([], "columns", "columns"), "columns of X"),
    ("columns", say("svmlight", "columns", "layout"), "layout"),
    ("columns", say("exe", "columns", "layout"), "layout"),
    ("columns", say(2**18, "columns", "hashed"), "hashed"),
    ("columns-sparse", say(0, "columns", "hashed"), "hashed"),
    ("columns-sparse", say(2**40, "columns", "hashed"), "hashed"),
    ("columns-sparse", say(2**17, "columns", "hashed"), "columns of X"),
    # graphs
    ("inverse", put("graph.0.component", 2**40), "component"),
    ("inverse", put("graph.0.component", -1), "component"),
    ("inverse", put("graph.0.component", 2), "component"),
    ("inverse", put("graph.0.similarity", np.nan), "finite"),
    ("inverse", put("graph.0.similarity", 1e308), "entries"),
    ("inverse", put("graph.0.similarity", -5.0), "semidefinite"),
    ("inverse", put("graph.0.similarity", 5.0, 1), "symmetric"),
    ("inverse", say(["ann"] * 5, "graphs", 0, "tasks"), "twice"),
    ("inverse", say(["ann"], "graphs", 0, "tasks"), "shape"),
    ("forgetron", put("graph.0.indices", 10**6), "columns"),
    ("forgetron", put("graph.0.indptr", 10**6, 5), "row starts"),
    ("forgetron", put("graph.0.data", -9.0), "graph"),
    ("forgetron", say(True, "graphs", 0, "singular"), "Laplacian"),
    ("random", put("graph.0.clusters", 9), "clusters"),
    ("random", say(-1.0, "graphs", 0, "coupling"), "coupling"),
    ("random", say("nan", "graphs", 0, "coupling"), "coupling"),
    ("random", say([], "graphs"), "graphs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "word"), INVALID, ids=[f"{n}-{case[0]}-{case[2]}" for n, case in enumerate(INVALID)]
)
def test_invalid_content_is_rejected(name, change, word, files, tmp_path):
    refused(tmp_path / "m", corrupted(files[name], change), word)


@pytest.mark.parametrize("name", ["random", "inverse", "shared"])
def test_a_small_file_that_asks_for_much_memory_is_rejected(name, files, tmp_path):
    refused(tmp_path / "m", corrupted(files[name], say(2**50, "settings", "capacity")), "bytes", "needs", "max_bytes")


def test_a_small_budgetron_file_that_asks_for_much_memory_is_rejected(files, tmp_path):
    """Rows of tasks and frequencies are allocated as needed, within `max_bytes`; all else must be in the file."""
    for name, value in (("filter_frequencies", 2**16), ("own_cells", 2**40), ("fourier_cells", 2**40)):
        refused(tmp_path / "m", corrupted(files["budgetron"], say(value, "settings", "parameters", name)))
    many = corrupted(files["budgetron"], say(2**20, "settings", "parameters", "frequencies"))
    refused(tmp_path / "m", many, max_bytes="2 MiB")


def test_a_damaged_container_is_rejected(files, tmp_path):
    content = files["random"]
    refused(tmp_path / "m", b"", "a Budgetron model")
    refused(tmp_path / "m", content[:40], "unchanged since it was saved")
    refused(tmp_path / "m", b"PK" + content, "a Budgetron model")
    refused(tmp_path / "m", content + b"\0", "SHA-256")
    refused(tmp_path / "m", content[:100], "SHA-256")
    head = MAGIC + (FORMAT + 1).to_bytes(8, "little")
    refused(tmp_path / "m", head + sha256(head + content[48:]).digest() + content[48:], f"format {FORMAT + 1}", "newer")
    rest, head = content[48:], content[:16]
    for payload in (b"", b"\xff" * 8, b"\0" * 8, (2**63).to_bytes(8, "little") + b"{}", rest[:-1], rest + b"\0"):
        refused(tmp_path / "m", head + sha256(head + payload).digest() + payload, "safetensors")
    refused(tmp_path / "m", packed(b"{", {}), "settings")
    refused(tmp_path / "m", packed(b"[" * 100_000, {}), "settings")
    refused(tmp_path / "m", packed(b"\xff\xfe", {}), "settings")
    refused(tmp_path / "m", packed(b"{}", {"c": np.zeros(1, dtype=np.complex64)}), "complex64")


def test_invalid_sizes_and_offsets_of_arrays_are_rejected(files, tmp_path):
    (tmp_path / "m").write_bytes(files["forgetron"])
    refused(tmp_path / "m", files["forgetron"], "at most 1000 bytes", "max_bytes", max_bytes=1000)
    refused(tmp_path / "m", files["budgetron"], "max_bytes", max_bytes="20 KiB")
    with pytest.raises(ModelFileError, match="regular file"):
        budgetron.load(tmp_path)
    with pytest.raises(ModelFileError, match="regular file"):
        budgetron.load("/dev/zero")
    with pytest.raises(FileNotFoundError):
        budgetron.load(tmp_path / "nothing")
    for wrong in ({"max_bytes": None}, {"max_bytes": 0}, {"max_bytes": "much"}, {"engine": "gpu"}):
        with pytest.raises(InputError):
            budgetron.load(tmp_path / "m", **wrong)


def test_a_description_with_an_absurd_component_number_costs_nothing():
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
def test_the_core_itself_refuses_indices_out_of_range(name, array, value):
    engine = small_models()[name]._engine
    state = {name: np.array(values) if np.ndim(values) else values for name, values in engine.state().items()}
    state[array][-1] = value
    with pytest.raises(ValueError):
        native.Engine.restore(engine.settings, state)
