"""The connections by which the coordinator notices that the process of a worker has ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from budgetron.distributed.workers import liveness
from budgetron.distributed.workers.liveness import Links

# The program of a process that holds a connection. It loads only liveness.py, because importing the package takes
# seconds.
HOLDER = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("liveness", sys.argv[1])
sys.modules["liveness"] = liveness = importlib.util.module_from_spec(spec)
spec.loader.exec_module(liveness)
liveness.RETRY_INTERVAL = 0.01
liveness.hold_connection((sys.argv[2], int(sys.argv[3])), bytes.fromhex(sys.argv[4]))
time.sleep(600)
"""


@contextlib.contextmanager
def holder(address, token):
    """A process that holds a connection as a worker does."""
    arguments = [liveness.__file__, address[0], str(address[1]), token.hex()]
    process = subprocess.Popen([sys.executable, "-c", HOLDER, *arguments])
    try:
        yield process
    finally:
        process.kill()
        process.wait(300)


@pytest.fixture
def links():
    links = Links("127.0.0.1")
    yield links
    links.close()


def wait_until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.01)


def connect(links, token):
    """Connect to the coordinator and send a token."""
    connection = socket.create_connection(links.address, timeout=300)
    connection.sendall(token)
    return connection


def is_closed_by_coordinator(connection):
    """Wait until the coordinator closes the connection. False if it sends something first."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_kill_of_a_process_is_noticed(links):
    link = links.new()
    with holder(links.address, link.token) as process:
        wait_until(lambda: link.n_open == 1)
        assert (link.n_ended, link.n_survived) == (0, 0)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: link.n_ended == 1)
        assert (link.n_open, link.n_survived) == (0, 0)


def test_a_worker_connects_again_after_its_connection_ended():
    token = b"t" * liveness.TOKEN_BYTES
    with socket.create_server(("127.0.0.1", 0)) as coordinator, holder(coordinator.getsockname(), token):
        for _ in range(2):
            with coordinator.accept()[0] as connection:
                assert connection.recv(100) == token


def test_a_new_process_of_an_actor_counts_as_survival(links):
    link = links.new()
    first = connect(links, link.token)
    wait_until(lambda: link.n_open == 1)
    first.close()
    wait_until(lambda: link.n_ended == 1)
    assert link.n_survived == 0
    with connect(links, link.token):
        wait_until(lambda: (link.n_open, link.n_survived) == (1, 1))
        # The end of an old connection may arrive after the start of a new one.
        with connect(links, link.token):
            wait_until(lambda: link.n_open == 2)
        wait_until(lambda: (link.n_open, link.n_ended, link.n_survived) == (1, 2, 2))


def test_connections_with_a_wrong_token_or_none_are_closed(links, monkeypatch):
    link, former = links.new(), links.new()
    links.forget(former)
    for token in (b"x" * liveness.TOKEN_BYTES, former.token, link.token[:-1] + bytes([link.token[-1] ^ 1])):
        with connect(links, token) as connection:
            assert is_closed_by_coordinator(connection)
    with connect(links, link.token[:5]) as connection:  # ends before the token is complete
        connection.shutdown(socket.SHUT_WR)
        assert is_closed_by_coordinator(connection)
    monkeypatch.setattr(liveness, "TOKEN_TIMEOUT", 0.01)
    with connect(links, b"") as silent:
        assert is_closed_by_coordinator(silent)
    assert (link.n_open, link.n_ended, former.n_open, former.n_ended) == (0, 0, 0, 0)


def test_connections_without_token_do_not_use_up_the_file_descriptors(links, monkeypatch):
    monkeypatch.setattr(liveness, "MAX_WITHOUT_TOKEN", 2)
    link = links.new()
    silent = [connect(links, b"") for _ in range(2)]
    wait_until(lambda: links._n_without_token == 2)
    with connect(links, link.token) as third:
        assert is_closed_by_coordinator(third)
    for connection in silent:
        connection.close()
    wait_until(lambda: links._n_without_token == 0)
    with connect(links, link.token):
        wait_until(lambda: link.n_open == 1)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc")
def test_closing_leaves_no_socket_and_no_thread():
    before = len(os.listdir("/proc/self/fd"))
    links = Links("127.0.0.1")
    link = links.new()
    with connect(links, link.token) as held, connect(links, b"") as silent:
        wait_until(lambda: link.n_open == 1 and links._n_without_token == 1)
        links.close()
        links.close()
        assert is_closed_by_coordinator(held) and is_closed_by_coordinator(silent)
    assert "budgetron-links" not in [thread.name for thread in threading.enumerate()]
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_address_of_another_machine_is_only_logged(caplog):
    with caplog.at_level(logging.WARNING):
        links = Links("198.51.100.1")  # reserved for documentation, so no machine has it
    assert links.address is None and "Lost workers are noticed later" in caplog.text
    assert links.new().n_ended == 0
    links.close()
