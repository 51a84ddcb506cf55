"""Start `budgetron serve` in a separate process, for the tests of the service and of the clients."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import preloaded
from child_signals import default_signals
from preloaded import ForkedService


def _started(options, env):
    with default_signals():
        return subprocess.Popen(
            [sys.executable, "-m", "budgetron", "serve", *options],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **(env or {})},
        )  # fmt: skip


class Running:
    """A running `budgetron serve`, whose log is read while it runs."""

    def __init__(self, data, *arguments, env=None, port=0):
        self.data = data
        options = [str(option) for option in (*arguments, "--data", data, "--port", port)]
        self.process = ForkedService(options) if env is None and preloaded.is_possible() else _started(options, env)
        self.log, self._serving = [], threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._serving.wait(600)
        serving = self.events("serving")
        if not serving:
            self.kill()
            raise RuntimeError(f"no service: {self.log}")
        self.url = serving[0]["address"].rstrip("/")

    def _read(self):
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"text": line.decode()})
            if self.log[-1].get("event") == "serving":
                self._serving.set()
        self._serving.set()

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=300, **options)

    def events(self, name):
        return [line for line in self.log if line.get("event") == name]

    def stop(self, sig=signal.SIGTERM, within=300):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        self.process.wait(within)
        self._reader.join(60)
        self.process.stderr.close()
        return self.process.returncode

    def kill(self):
        return self.stop(signal.SIGKILL)


@contextlib.contextmanager
def running(data, *arguments, **options):
    """A running service, which is stopped at the end of the `with` block."""
    service = Running(data, *arguments, **options)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.stop()


def free_port():
    """A port for a service that is started several times at the same address.

    The port is below the range from which the system assigns ports, so no other connection gets it between two starts.
    As long as nothing listens on it, further calls in this process return the same port.
    """
    return free_ports(1)[0]


def free_ports(n):
    """Return n different ports, chosen as in `free_port`."""
    ports = []
    for port in random.Random(os.getpid()).sample(range(20_000, 30_000), 100):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == n:
            return ports
    raise RuntimeError("no free port")


def rss(pid):
    """Resident memory of a process, in bytes."""
    if not os.path.exists("/proc/self/statm"):  # macOS
        return 1024 * int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)]))
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until(condition, seconds=300):
    """Call a function until it returns a true value, and return that value. Fails after this many seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.02)
    return value


def with_longer_limits(attempt):
    """Call `attempt` with a time limit of 1 second; if it fails, with 8 seconds, and then with 64.

    The attempts test which slow clients the service serves, and which it drops. On a busy machine, this process may
    pause for longer than an attempt intends, and exceed a short limit. So one success is enough. If the service is
    wrong, all attempts fail.
    """
    for seconds in (1.0, 8.0):
        with contextlib.suppress(AssertionError, OSError, httpx.TransportError):
            return attempt(seconds)
    return attempt(64.0)


def _address(log):
    """Read the log of a service until it serves, and return its address. Fails if the log ends before that."""
    lines = []
    for line in log:
        lines.append(line.decode())
        with contextlib.suppress(ValueError):  # a line that is not JSON, such as one of a traceback
            event = json.loads(line)
            if event["event"] == "serving":
                return event["address"]
    raise RuntimeError(f"no service: {''.join(lines)}")


@contextlib.contextmanager
def limited_service(tmp_path, **limits):
    """The URL of a service with these `Limits`, started with a soft limit of 128 open files."""
    script = (
        "import json, sys; from pathlib import Path; import budgetron;"
        "from budgetron.service.run import serve; from budgetron.service.settings import Limits, ServiceSettings;"
        "serve(ServiceSettings(Path(sys.argv[1]), port=0, limits=Limits(**json.loads(sys.argv[2]))),"
        " {'default': lambda: budgetron.Budgetron(budget=10)})"
    )
    with default_signals():
        command = ["sh", "-c", 'ulimit -S -n 128; exec "$0" "$@"', sys.executable, "-c", script, tmp_path]
        process = subprocess.Popen([*command, json.dumps(limits)], stderr=subprocess.PIPE)
    try:
        yield _address(process.stderr)
    finally:
        process.terminate()
        process.wait(300)
        process.stderr.close()


def expect_error(answer, status, kind):
    """Check the status and the kind of an error answer, and return its message."""
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["kind"] == kind, answer.text
    return answer.json()["error"]["message"]


def model_file(model, path):
    """Save the model and return the bytes of the file."""
    model.save(path)
    return path.read_bytes()
