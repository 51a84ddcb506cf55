"""nginx in front of a service with API keys: TLS, limits, streams, and the address of the client."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading

import httpx
import pytest
from child_signals import default_signals
from debian import DEPLOY, tool
from running import free_port, running, until

from budgetron.service.http import api_keys

WRAPPER = """
daemon off; {user} pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/budgetron.conf;
}}
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """nginx with the recipe of deploy/, in which only addresses, paths and the rate limit are changed.

    Yields the URL, the certificate, the headers per role, and the service.
    """
    nginx, openssl = tool("nginx", "nginx"), tool("openssl", "openssl")
    folder = tmp_path_factory.mktemp("nginx")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([openssl, "req", *kind, *subject, *files], check=True, capture_output=True)
    keys = folder / "keys.txt"
    tokens = {role: api_keys.add(keys, f"the-{role}", role) for role in api_keys.ROLES}
    headers = {role: {"Authorization": f"Bearer {token}"} for role, token in tokens.items()}
    flags = ("--keys", keys, "--trusted-proxy", "127.0.0.1", "--log-requests")
    with running(folder / "data", "Budgetron budget=20", *flags) as service:
        port = free_port()
        text = (DEPLOY / "nginx.conf").read_text()
        for old, new in {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "server 127.0.0.1:8000": f"server {service.url.removeprefix('http://')}",
            "/etc/nginx/budgetron/": f"{folder}/",
            "burst=200": "burst=40",
            "rate=100r/s": "rate=20r/s",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "budgetron.conf").write_text(text)
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(WRAPPER.format(folder=folder, user=user))
        with default_signals():
            process = subprocess.Popen(
                [nginx, "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE, text=True
            )
        try:
            until(lambda: process.poll() is not None or _listens(port))
            assert process.poll() is None, process.stderr.read()
            yield f"https://localhost:{port}", str(folder / "cert.pem"), headers, service
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            process.stderr.close()


def _listens(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def client(deployed):
    url, certificate, *_ = deployed
    with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=certificate), timeout=60) as client:
        yield client


SPAM = {"examples": [{"features": [1.0, 2.0], "label": "spam", "task": "ann"},
                     {"features": [2.0, 1.0], "label": "ham", "task": "bob"}]}  # fmt: skip


def request_until_admitted(client, method, path, **options):
    """Repeat a request until nginx does not answer 429. All tests of this file share the rate limit of one address."""
    answers = []

    def answered():
        answers.append(client.request(method, path, **options))
        return answers[-1].status_code != 429

    until(answered)
    return answers[-1]


def test_a_key_works_through_tls_and_the_service_sees_the_client(deployed, client):
    _, _, headers, service = deployed
    assert request_until_admitted(client, "GET", "/v1/model").status_code == 401
    learned = request_until_admitted(client, "POST", "/v1/learn", json=SPAM, headers=headers["learn"])
    assert learned.status_code == 200 and learned.json()["learned"] == 2
    assert learned.headers["strict-transport-security"].startswith("max-age") and learned.headers["server"] == "nginx"
    assert request_until_admitted(client, "GET", "/v1/snapshot", headers=headers["admin"]).status_code == 200
    assert until(lambda: service.events("admin"))[-1]["address"] == "127.0.0.1"
    assert request_until_admitted(client, "GET", "/readyz").json()["status"] == "ready"


def test_metrics_limits_and_audit_log_are_not_reachable_through_nginx(deployed, client):
    for path in ("/metrics", "/v1/limits", "/v1/audit"):
        assert request_until_admitted(client, "GET", path, headers=deployed[2]["admin"]).status_code == 404
        with deployed[3].client(headers=deployed[2]["admin"]) as inside:
            assert inside.get(path).status_code == 200


def test_large_headers_and_bodies_are_rejected_by_nginx(client):
    answer = request_until_admitted(client, "GET", "/v1/model", headers={"X-Large": "x" * 40_000})
    assert answer.status_code in (400, 431)
    too_long = b" " * (8 * 2**20 + 1)
    headers = {"Content-Type": "application/json"}
    answer = request_until_admitted(client, "POST", "/v1/feedback", content=too_long, headers=headers)
    assert answer.status_code == 413 and answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/v1/learn", "/v1/predict", "/v1/snapshot", "/v1/versions/v2"])
def test_streams_and_model_files_may_be_longer_than_other_bodies(deployed, path):
    """nginx checks the header Content-Length, so one line of the body is enough. A 401 is sent by the service."""
    url, certificate, *_ = deployed
    host, port = url.removeprefix("https://").split(":")
    line = json.dumps({"features": [1.5, 2.5], "task": "ann"}).encode() + b"\n"
    method = "PUT" if path.startswith(("/v1/snapshot", "/v1/versions")) else "POST"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        f"Content-Length: {9 * 2**20}\r\nAuthorization: Bearer nobody\r\n\r\n"
    )

    def answered():
        """Whether the service answers that the key is unknown. False if nginx limits the rate."""
        plain = socket.create_connection((host, int(port)), timeout=60)
        with ssl.create_default_context(cafile=certificate).wrap_socket(plain, server_hostname=host) as tls:
            tls.sendall(head.encode() + line)
            received = tls.recv(65536)
        assert b" 413 " not in received
        return b" 401 " in received

    assert until(answered)


def test_a_burst_gets_429_with_retry_after(deployed, client):
    """How many requests reach the limit depends on the machine, so threads send requests until one is refused."""
    answers = [request_until_admitted(client, "GET", "/healthz")]

    def send_many():
        with httpx.Client(base_url=client.base_url, verify=ssl.create_default_context(cafile=deployed[1])) as own:
            while all(answer.status_code != 429 for answer in answers) and len(answers) < 10_000:
                answers.append(own.get("/healthz", timeout=60))

    threads = [threading.Thread(target=send_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1" and refused.json()["error"]["kind"] == "too_many"
    assert re.search("one address", refused.json()["error"]["message"])


def test_a_stream_is_answered_while_it_is_sent(deployed, client):
    """The answer to the first lines arrives before the client sends the last ones."""
    url, certificate, headers, _ = deployed
    request_until_admitted(client, "POST", "/v1/learn", json=SPAM, headers=headers["learn"])
    host, port = url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=certificate)
    line = json.dumps({"features": [1.5, 2.5], "label": "spam", "task": "ann"}).encode() + b"\n"
    head = (
        b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\nAuthorization: " + headers["learn"]["Authorization"].encode() + b"\r\n\r\n"
    )

    def chunk(content):
        return b"%x\r\n%s\r\n" % (len(content), content)

    def stream_once():
        """Send a stream and check its answers. False if nginx limits the rate: the caller must send it again."""
        plain = socket.create_connection((host, int(port)), timeout=60)
        with context.wrap_socket(plain, server_hostname=host) as tls:
            tls.sendall(head + chunk(line * 3))
            received = tls.recv(65536)
            if b" 429 " in received:
                return False
            while b'"learned"' not in received:
                received += (piece := tls.recv(65536))
                assert piece, received
            assert b'"done"' not in received
            tls.sendall(chunk(line * 2) + b"0\r\n\r\n")
            while b'"done"' not in received:
                received += (piece := tls.recv(65536))
                assert piece, received
            return True

    assert until(stream_once)
