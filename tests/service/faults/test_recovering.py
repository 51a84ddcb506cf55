"""The service listens before its models are recovered: health checks are answered, other requests get 503."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
from child_signals import default_signals
from running import running, until

from budgetron import Budgetron
from budgetron.service.http.app import create_app
from budgetron.service.lifecycle import Service
from budgetron.service.settings import ServiceSettings


def test_requests_while_a_model_is_recovered(tmp_path):
    may_continue = threading.Event()

    def slow_model():
        may_continue.wait(300)
        return Budgetron(budget=10)

    async def main():
        service = Service(ServiceSettings(tmp_path), {"default": slow_model})
        service.start()
        opening = asyncio.create_task(service.open())
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/healthz")).status_code == 200
            ready = await client.get("/readyz")
            assert ready.status_code == 503 and ready.json()["status"] == "recovering"
            assert ready.json()["reasons"]["default"].startswith("recovering: ")
            answer = await client.get("/v1/model")
            assert answer.status_code == 503 and answer.json()["error"]["kind"] == "recovering"
            assert answer.headers["retry-after"] == "1"
            assert (await client.get("/v1/models")).json() == {"models": ["default"]}
            may_continue.set()
            await opening
            service._ready_until = 0.0
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/v1/model")).status_code == 200
        await service.close()

    with ThreadPoolExecutor(1) as thread:  # a browser test may have left an event loop in the main thread
        thread.submit(asyncio.run, main()).result()


def test_the_port_is_open_while_a_model_is_recovered(tmp_path):
    """The process listens on its port and answers health checks, however long a model takes to open."""
    script = (
        "import sys, time; from pathlib import Path; import budgetron;"
        "from budgetron.service.run import serve; from budgetron.service.settings import ServiceSettings\n"
        "def make():\n"
        "    while not Path(sys.argv[1], 'go on').exists(): time.sleep(0.02)\n"
        "    return budgetron.Budgetron(budget=10)\n"
        "serve(ServiceSettings(Path(sys.argv[1], 'data'), port=0), {'default': make})"
    )
    with default_signals():
        process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stderr=subprocess.PIPE)
    try:
        event = json.loads(process.stderr.readline())
        assert event["event"] == "listening"
        with httpx.Client(base_url=event["address"], timeout=300) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").json()["status"] == "recovering"
            assert client.get("/v1/model").status_code == 503
            (tmp_path / "go on").touch()
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.get("/v1/model").status_code == 200
        assert [json.loads(process.stderr.readline())["event"] for _ in range(2)] == ["model", "serving"]
    finally:
        process.terminate()
        assert process.wait(300) == 0
        process.stderr.close()


def test_falling_back_to_an_older_snapshot_is_logged(tmp_path):
    examples = {"examples": [{"features": [i / 9, 1.0], "label": i % 2, "task": "ann"} for i in range(10)]}
    with running(tmp_path, "--snapshot-every", 10) as service, service.client() as client:
        for _ in range(5):
            assert client.post("/v1/learn", json=examples).status_code == 200
        service.kill()
    db = sqlite3.connect(tmp_path / "default" / "host.sqlite")
    newest, older = (number for (number,) in db.execute("SELECT DISTINCT number FROM snapshot ORDER BY number DESC"))
    db.execute("DELETE FROM snapshot WHERE number = ?", (newest,))
    db.commit()
    db.close()
    with running(tmp_path) as service, service.client() as client:
        assert client.get("/v1/model").json()["seen"] == 50
        (warning,) = service.events("warning")
        assert f"snapshot {newest}: it is missing. Recovery starts from snapshot {older}" in warning["message"]
