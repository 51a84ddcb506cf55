"""Model files on disk: atomic replacement, permissions, links, and models that cannot be saved."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
from saved_models import LEARNERS, model_of, same_state, stream
from sklearn.exceptions import NotFittedError

import budgetron
from budgetron import graphs, kernels
from budgetron.errors import InputError
from budgetron.persist import disk


@pytest.fixture
def model():
    return budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], [0, 1, 0], tasks=["a", "b", "a"])


def check_message(error, *words):
    """Assert that an error message has its three parts and contains the words."""
    sentence = str(error.value)
    assert " must be " in sentence and "; got " in sentence
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(model, step, tmp_path, monkeypatch):
    model.save(tmp_path / "m")
    old = (tmp_path / "m").read_bytes()
    model.partial_fit([[5.0]], [1], tasks=["c"])

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, step, fail)
    with pytest.raises(OSError, match="No space"):
        model.save(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"] and (tmp_path / "m").read_bytes() == old


def test_a_rejected_model_writes_nothing(model, tmp_path):
    model.set_params(budget=-1)
    with pytest.raises(InputError) as error:
        model.save(tmp_path / "m")
    check_message(error, "budget")
    assert not list(tmp_path.iterdir())


def test_new_files_follow_the_umask_and_replaced_files_keep_their_mode(model, tmp_path):
    old = os.umask(0o027)
    try:
        model.save(tmp_path / "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    model.save(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_saving_to_links_folders_and_devices(model, tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "m")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "m").is_file()
    monkeypatch.chdir(tmp_path)
    model.save("plain")
    assert budgetron.load("plain").n_seen_ == 3
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(InputError) as error:
            model.save(path)
        check_message(error, "save", "path")
    with pytest.raises(FileNotFoundError) as missing:
        model.save(tmp_path / "no" / "m")
    assert missing.value.filename == str(tmp_path / "no" / "m")  # not the name of a temporary file
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="regular file"):
        budgetron.load(tmp_path / "pipe")


@dataclass(frozen=True)
class CustomKernel(kernels.Kernel):
    def of_products(self, dot, sq_a, sq_b):
        return dot + 1.0


class CustomLearner(budgetron.Forgetron):
    pass


class UnsavableTask:
    pass


def test_custom_code_is_not_saved(tmp_path):
    X, y, tasks = [[0.0], [1.0]], [0, 1], ["a", "b"]
    task = UnsavableTask()
    for model, word in [
        (budgetron.Forgetron(kernel=CustomKernel()).fit(X, y, tasks=tasks), "kernel"),
        (budgetron.Forgetron().fit(X, y, tasks=tasks).set_params(kernel=CustomKernel()), "kernel"),
        (CustomLearner().fit(X, y, tasks=tasks), "CustomLearner"),
        (
            budgetron.RandomBudgetPerceptron(random_state=np.random.RandomState(0)).fit(X, y, tasks=tasks),
            "random_state",
        ),
        (
            budgetron.Forgetron(graph=graphs.from_edges([(task, "b")])).fit(X, y, tasks=[task, "b"]),
            "tasks of the graph",
        ),
    ]:
        with pytest.raises(InputError) as error:
            model.save(tmp_path / "m")
        check_message(error, word, "pickle")
    with pytest.raises(NotFittedError):
        budgetron.Forgetron().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_state_that_is_not_finite_is_rejected_when_saved(model, tmp_path):
    state = model._engine.state()
    state["coef"] = state["coef"] * np.nan
    model._engine = type(model._engine).restore(model._engine.settings, state)
    with pytest.raises(InputError) as error:
        model.save(tmp_path / "m")
    check_message(error, "coef", "finite")


def test_a_graph_that_cannot_be_loaded_is_rejected_when_saved(model, tmp_path):
    graph = graphs.from_similarity([[1.0, 0.5], [0.5, 1.0]], tasks=["a", "b"])
    model.set_params(graph=graph).save(tmp_path / "m")
    for value in (1e200, -1.0):  # no constructor makes such a graph
        model.set_params(graph=replace(graph, dense=np.array([[value, 0.0], [0.0, 1.0]])))
        with pytest.raises(InputError, match="this model cannot be saved: load: a task graph must be valid"):
            model.save(tmp_path / "m")
    assert budgetron.load(tmp_path / "m").graph == graph


def test_an_operating_point_that_cannot_be_loaded_is_rejected_when_saved(tmp_path):
    model = budgetron.Budgetron(budget=20)
    model.operating_point = budgetron.OperatingPoint(max_error=0.1)
    model.partial_fit([[0.0], [1.0], [2.0]], [0, 1, 0]).operating_point.begin(np.array([0, 1, 2]))
    with pytest.raises(InputError, match=r"this model cannot be saved: .*decisions"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize("name", LEARNERS)
def test_equal_models_make_equal_files(name, tmp_path):
    X, y, tasks = stream(80)
    for path in ("a", "b"):
        model_of(name).partial_fit(X, y, tasks=tasks).save(tmp_path / path)
    again = budgetron.load(tmp_path / "a")
    again.save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_saving_while_another_thread_learns(tmp_path):
    X, y, tasks = stream(400)
    model = model_of("SharedProjectron").partial_fit(X[:50], y[:50], tasks=tasks[:50])
    stop = threading.Event()

    def learn():
        while not stop.is_set():
            model.partial_fit(X, y, tasks=tasks)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(20):
            model.save(tmp_path / "m")
            assert (budgetron.load(tmp_path / "m").n_seen_ - 50) % 400 == 0
    finally:
        stop.set()
        thread.join()
    model.save(tmp_path / "m")
    same_state(model, budgetron.load(tmp_path / "m"))
