"""Fixtures: a web server on loopback that serves data files, and an environment without the user's settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests from using the user's data folder, mirror, cache or proxies."""
    for variable in [*os.environ]:
        if variable in ("BUDGETRON_DATA", "BUDGETRON_MIRROR") or variable.lower().endswith("_proxy"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("BUDGETRON_CACHE", str(tmp_path / "cache"))


class Mirror:
    """Serves files. To simulate bad responses, `fault(content)` returns the declared length and the bytes to send."""

    def __init__(self, folder: Path) -> None:
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.requests.append(self.path.lstrip("/"))
                path = folder / self.path.lstrip("/")
                if not path.is_file():
                    self.send_error(404)
                    return
                content = path.read_bytes()
                declared, sent = mirror.fault(content)
                self.send_response(200)
                self.send_header("Content-Length", str(declared))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: Any) -> None:
                pass

        self.requests: list[str] = []
        self.fault = lambda content: (len(content), content)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A server of the files in `tmp_path / "origin"`. All downloads come from this server."""
    pooch = pytest.importorskip("pooch", reason="the extra `data` is not installed")
    # pooch sleeps before a retry. The tests need not wait for that.
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=lambda seconds: None))
    origin = tmp_path / "origin"
    origin.mkdir()
    running = Mirror(origin)
    monkeypatch.setenv("BUDGETRON_MIRROR", running.url)
    yield running
    running.stop()
