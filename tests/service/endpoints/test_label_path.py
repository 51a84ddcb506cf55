"""A label goes from HTTP to disk and back through at most 15 files, which CONTRIBUTING lists, and is checked once."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import budgetron
from budgetron import RandomBudgetPerceptron
from budgetron.learners.input import validation
from budgetron.learners.learner import Learner
from budgetron.service.http.app import create_app
from budgetron.service.lifecycle import Service
from budgetron.service.settings import ServiceSettings

ROOT = Path(budgetron.__file__).parent
LABEL = "the label"
# Two more files of the path, which do not see the label in this test: the test uses no socket, and `app` chooses the
# handler before the body is read.
BEFORE_THE_BODY = {"service/http/connections.py", "service/http/app.py"}


def learn_one_label(tmp_path, traced):
    """Send one label to a service in this process, and trace the calls of that request in all threads."""

    async def main():
        service = Service(ServiceSettings(tmp_path), {"default": lambda: RandomBudgetPerceptron(budget=10)})
        await service.open()
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = [{"features": [1.0, 2.0], "label": label, "task": "ann"} for label in ("another", LABEL)]
            assert (await client.post("/v1/learn", json={"examples": first})).status_code == 200
            with traced(service.models["default"].writer):
                example = {"features": [2.0, 1.0], "label": LABEL, "task": "ann", "key": "one"}
                assert (await client.post("/v1/learn", json=example)).status_code == 200
        await service.close()

    # In another thread, because a browser test may have left an event loop in the main thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()


class FileTracer:
    """Records the files of the package in which a variable contains the label, in any thread: `with traced(writer):`.

    Files that are not recorded see only other properties of the request: its sender, duration, size or failure.
    """

    def __init__(self):
        self.files = set()

    def __call__(self, writer):
        self._writer = writer
        return self

    def _record(self, frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and event in ("call", "return"):
            values = [value for name, value in frame.f_locals.items() if name != "self"]
            with contextlib.suppress(Exception):  # an object may have no repr before it is complete
                if LABEL in repr([*values, argument]):
                    self.files.add(path.relative_to(ROOT).as_posix())

    def __enter__(self):
        # A profile function takes effect only in threads that start later, so the writer's thread is replaced.
        threading.setprofile(self._record)
        writer = self._writer
        ended, writer._thread = writer._thread, threading.Thread(target=writer._run, daemon=True)
        writer._queue.put(None)
        ended.join(60)
        writer._thread.start()
        sys.setprofile(self._record)

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)


def test_a_label_passes_at_most_fifteen_files_before_the_learner(tmp_path):
    traced = FileTracer()
    learn_one_label(tmp_path, traced)
    ours = BEFORE_THE_BODY | {file for file in traced.files if file.startswith(("service/", "durable/"))}
    assert len(ours) <= 15, sorted(ours)
    guide = Path(__file__).parents[3] / "CONTRIBUTING.md"
    section = guide.read_text(encoding="utf-8").partition("## One label")[2].partition("\n## ")[0]
    assert set(re.findall(r"`((?:service|durable)/[\w/]+\.py)`", section)) == ours


@pytest.mark.parametrize("options", [{}, {"shards": 2}], ids=["one model", "shards"])
def test_rows_are_converted_and_checked_once(tmp_path, monkeypatch, options):
    counts = {"matrix": 0, "check": 0}
    matrix, check = validation.matrix, Learner.check

    def counted_matrix(*arguments):
        counts["matrix"] += 1
        return matrix(*arguments)

    def counted_check(*arguments):
        counts["check"] += 1
        return check(*arguments)

    async def main():
        make = {"default": lambda: RandomBudgetPerceptron(budget=10, graph=budgetron.graphs.disconnected())}
        service = Service(ServiceSettings(tmp_path, **options), make)
        await service.open()
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            examples = [{"features": [i, 1.0], "label": i % 2, "task": f"t{i}"} for i in range(20)]
            assert (await client.post("/v1/learn", json={"examples": examples})).status_code == 200
            monkeypatch.setattr(validation, "matrix", counted_matrix)
            monkeypatch.setattr(Learner, "check", counted_check)
            assert (await client.post("/v1/learn", json={"examples": examples, "key": "k"})).status_code == 200
            monkeypatch.undo()
        await service.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()
    assert counts == {"matrix": 1, "check": 1}
