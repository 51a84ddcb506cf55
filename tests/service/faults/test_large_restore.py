"""A model file may be large and its upload slow: only a long pause or a size above one gibibyte ends the upload."""

from __future__ import annotations

import time

import httpx
import numpy as np
import pytest
from running import limited

import budgetron
from budgetron import kernels

MAX_PAUSE = 1.0  # seconds that a client may be silent; each upload takes several times as long


def in_pieces(content, seconds):
    """Yield the content in 50 pieces, over this many seconds."""
    size = -(-len(content) // 50)
    for start in range(0, len(content), size):
        yield content[start : start + size]
        time.sleep(seconds / 50)


def model_file(tmp_path, d, budget):
    rng = np.random.default_rng(0)
    model = budgetron.RandomBudgetPerceptron(budget=budget, kernel=kernels.Linear())
    for _ in range(4):
        X = rng.normal(size=(budget, d)).astype(np.float32)
        model.partial_fit(X, rng.integers(2, size=budget), tasks=["ann"] * budget, classes=[0, 1])
    model.save(tmp_path / "large.budgetron")
    return model, (tmp_path / "large.budgetron").read_bytes()


@pytest.mark.parametrize(("d", "budget"), [(1000, 200), pytest.param(60_000, 1000, marks=pytest.mark.long)])
def test_a_model_is_restored_however_long_its_upload_takes(tmp_path, d, budget):
    model, content = model_file(tmp_path, d, budget)
    with (
        limited(tmp_path / "data", seconds_to_send=MAX_PAUSE) as url,
        httpx.Client(base_url=url, timeout=600) as client,
    ):
        answer = client.put("/v1/snapshot", content=in_pieces(content, 4 * MAX_PAUSE))
        assert answer.status_code == 200, answer.text
        assert client.get("/v1/model").json()["stored"] == model.n_stored_
        assert client.get("/v1/snapshot").content == content


@pytest.mark.long
def test_a_body_of_a_gibibyte_is_read_to_its_end(tmp_path):
    with limited(tmp_path, seconds_to_send=MAX_PAUSE) as url, httpx.Client(base_url=url, timeout=600) as client:
        answer = client.put("/v1/snapshot", content=in_pieces(memoryview(bytes(2**30)), 4 * MAX_PAUSE))
        assert answer.status_code == 422 and "a Budgetron model" in answer.text


def test_a_snapshot_may_be_read_slowly(tmp_path):
    """The timeout for the next request must not end a response that the client is still reading."""
    _, content = model_file(tmp_path, 40_000, 200)
    with (
        limited(tmp_path / "data", seconds_to_send=MAX_PAUSE) as url,
        httpx.Client(base_url=url, timeout=600) as client,
    ):
        assert client.put("/v1/snapshot", content=content).status_code == 200
        pieces = []
        with client.stream("GET", "/v1/snapshot") as answer:
            for piece in answer.iter_raw(len(content) // 50):
                pieces.append(piece)
                time.sleep(4 * MAX_PAUSE / 50)
        assert b"".join(pieces) == content
