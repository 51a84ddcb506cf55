"""A model file may be large, and its upload or download slow.

Only a long pause, a speed below 1 kB/s, or a size above one gibibyte ends an upload.
"""

from __future__ import annotations

import contextlib
import time

import httpx
import numpy as np
import pytest
from running import limited_service, with_longer_limits

import budgetron
from budgetron import kernels


@contextlib.contextmanager
def service(tmp_path, max_pause):
    """A client of a new service, which allows pauses of `max_pause` seconds in a request."""
    with (
        limited_service(tmp_path / f"data-{max_pause}", seconds_to_send=max_pause) as url,
        httpx.Client(base_url=url, timeout=600) as client,
    ):
        yield client


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

    def upload(max_pause):
        with service(tmp_path, max_pause) as client:
            answer = client.put("/v1/snapshot", content=in_pieces(content, 4 * max_pause))
            assert answer.status_code == 200, answer.text
            assert client.get("/v1/model").json()["stored"] == model.n_stored_
            assert client.get("/v1/snapshot").content == content

    with_longer_limits(upload)


@pytest.mark.long
def test_a_body_of_a_gibibyte_is_read_to_its_end(tmp_path):
    def upload(max_pause):
        with service(tmp_path, max_pause) as client:
            answer = client.put("/v1/snapshot", content=in_pieces(memoryview(bytes(2**30)), 4 * max_pause))
            assert answer.status_code == 422 and "a Budgetron model" in answer.text

    with_longer_limits(upload)


def test_a_snapshot_may_be_downloaded_slowly(tmp_path):
    """The timeout for the next request must not end a response that the client is still reading."""
    _, content = model_file(tmp_path, 40_000, 200)

    def download(max_pause):
        with service(tmp_path, max_pause) as client:
            assert client.put("/v1/snapshot", content=content).status_code == 200
            pieces = []
            with client.stream("GET", "/v1/snapshot") as answer:
                for piece in answer.iter_raw(len(content) // 50):
                    pieces.append(piece)
                    time.sleep(4 * max_pause / 50)
            assert b"".join(pieces) == content

    with_longer_limits(download)
