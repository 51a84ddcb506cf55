"""Start services by forking a process that has already imported the service.

Importing takes about a second of processor time per start, which is longer than most tests of the service. Each pytest
worker starts one such process, which forks once per service. A forked service is a separate process with its own port,
files and signals, and can be killed. It differs from `python -m budgetron serve` only in how it was started. A few
tests, such as those of the Docker image and of the rehearsal page, start the command itself.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from child_signals import default_signals

_PROGRAM = """
import json, os, random, socket, sys
import budgetron.cli.commands.service.serve, budgetron.learners.estimators.budgetron, budgetron.service.run
from budgetron.cli import main

def serve(request, log):
    os.dup2(log, 2)
    os.close(log)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    random.seed()  # otherwise all services would draw the same numbers
    try:
        main(["serve", *request["arguments"]], prog_name="budgetron")
    except SystemExit as stopped:
        return stopped.code or 0

requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    request, files, _, _ = socket.recv_fds(requests, 2**20, 1)
    if not request:
        break
    request = json.loads(request)
    if "arguments" in request:
        answer = os.fork()
        if answer == 0:
            requests.close()
            code = 1
            try:
                code = serve(request, files[0])
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(files[0])
    else:
        ended, status = os.waitpid(request["poll"], os.WNOHANG)
        answer = os.waitstatus_to_exitcode(status) if ended else None
    requests.send(json.dumps(answer).encode())
"""


def is_possible() -> bool:
    """Whether services can be forked here: on Linux, unless coverage must follow the processes."""
    return sys.platform == "linux" and not any(name.startswith("COVERAGE_") for name in os.environ)


class _Forker:
    """The process that has imported the service, one per worker of pytest. It ends with the worker."""

    def __init__(self) -> None:
        self._requests, other = socket.socketpair()
        with other, default_signals():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(other.fileno())], pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self._lock = threading.Lock()  # a test may start services in several threads
        atexit.register(self._end)

    def _end(self) -> None:
        self._requests.close()
        self._process.wait(60)

    def ask(self, request, *files):
        with self._lock:
            socket.send_fds(self._requests, [json.dumps(request).encode()], files)
            return json.loads(self._requests.recv(1000))


@functools.cache
def _forker() -> _Forker:
    return _Forker()


class ForkedService:
    """A forked `budgetron serve`, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, arguments) -> None:
        log, write_end = os.pipe()
        request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
        self.pid = _forker().ask(request, write_end)
        os.close(write_end)
        self.stderr, self.returncode = os.fdopen(log, "rb"), None
        # Some tests send signals from a timer. Once `poll` has found that the process has ended, its id may belong to
        # another process, so polling and sending signals exclude each other.
        self._lock = threading.RLock()

    def poll(self):
        with self._lock:
            if self.returncode is None:
                self.returncode = _forker().ask({"poll": self.pid})
            return self.returncode

    def wait(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("budgetron serve", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number) -> None:
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
