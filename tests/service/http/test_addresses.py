"""Limits per client address, proxies that name the address of a client, and changes of limits at run time."""

from __future__ import annotations

from types import SimpleNamespace

import event_loops
import httpx
import pytest
from running import running

from budgetron.errors import InputError
from budgetron.service.http import api_keys, rates
from budgetron.service.http.addresses import Addresses, counted_name
from budgetron.service.http.app import create_app
from budgetron.service.http.connections import Connections
from budgetron.service.lifecycle import Service
from budgetron.service.monitoring import slow_log
from budgetron.service.settings import ServiceSettings


def scope(peer, *forwarded):
    return {"client": (peer, 5), "headers": [(b"x-forwarded-for", value.encode()) for value in forwarded]}


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.9"], "192.0.2.1"),  # not a trusted proxy: its header is ignored
        ("10.0.0.1", ["198.51.100.9"], "198.51.100.9"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.9"], "198.51.100.9"),  # the client invented the first address
        ("10.0.0.1", ["1.1.1.1", "198.51.100.9, 10.0.0.2"], "198.51.100.9"),  # two proxies, two headers
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["not an address"], "10.0.0.1"),
        ("10.0.0.1", ["1.1.1.1, garbage, 10.0.0.3"], "10.0.0.3"),
        ("10.0.0.1", ["2001:db8:1:2:3::4"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.9"], "198.51.100.9"),
    ],
)
def test_the_client_address_is_read_from_trusted_proxies_only(peer, forwarded, client):
    assert Addresses(["10.0.0.0/8"]).of(scope(peer, *forwarded)) == client


def test_clients_without_an_address_are_named_and_invalid_proxies_refused():
    assert counted_name("testclient") == "testclient" and Addresses([]).of({"client": None, "headers": []}) == "unknown"
    with pytest.raises(InputError, match="--trusted-proxy must be an address or a network"):
        Addresses(["nginx.local"])


def test_the_table_of_addresses_is_bounded(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(rates, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limited = rates.Rates(0.0, address_rate=1.0)
    assert [limited.admit("busy") for _ in range(3)] == [0, 0, 1.0]  # the bucket holds two seconds
    for i in range(rates.MAX_ADDRESSES + 50):
        assert limited.admit(f"a{i}") == 0
        if i % 1000 == 0:
            assert limited.admit("busy") > 0  # "busy" is used often, so its entry is not evicted
    assert len(limited.addresses) == rates.MAX_ADDRESSES
    now[0] += 1
    assert limited.admit("busy") == 0 and limited.admit("busy") == 1.0


class FakeConnection:
    def __init__(self, peer, port):
        self.key, self.peer, self.address, self.is_reserved = (peer, port), peer, counted_name(peer), False


def test_connections_per_address_are_limited():
    connections = Connections(100, 1.0, per_address=2, is_trusted=lambda peer: peer == "10.0.0.1")
    connections_of_client = [FakeConnection("192.0.2.1", port) for port in range(6)]
    accepted = [connections.add(connection) for connection in connections_of_client]
    assert accepted == [True] * 4 + [False] * 2  # the last two of the accepted connections get a 503 with the reason
    assert [connection.is_reserved for connection in connections_of_client[:4]] == [False, False, True, True]
    proxy = [FakeConnection("10.0.0.1", port) for port in range(6)]
    assert all(connections.add(connection) and not connection.is_reserved for connection in proxy)
    for connection in connections_of_client:
        connections.remove(connection)
    again = FakeConnection("192.0.2.1", 9)
    assert connections.add(again) and not again.is_reserved and len(connections) == 7


def test_the_slow_log_is_bounded_and_says_how_much_it_left_out(monkeypatch):
    now, lines = [50.0], []
    monkeypatch.setattr(slow_log, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(slow_log, "log", lambda event, **fields: lines.append(fields))
    slow = slow_log.SlowLog(0.5)
    slow.note(0.4, route="fast")
    for _ in range(slow_log.MAX_LINES + 7):
        slow.note(0.6, route="learn")
    slow.tick()
    assert lines == [{"milliseconds": 600.0, "route": "learn"}] * slow_log.MAX_LINES
    now[0] += 1.5
    slow.tick()
    slow.note(0.7, route="learn")
    assert lines[-2:] == [{"suppressed": 7}, {"milliseconds": 700.0, "route": "learn"}]
    slow.seconds = 0.0
    slow.note(100.0, route="learn")
    assert len(lines) == slow_log.MAX_LINES + 2


def test_reading_the_limits_is_rate_limited_if_no_key_can_be_read(tmp_path, monkeypatch):
    """The rate does not apply to administrators, but without the key file nobody is known to be an administrator."""
    api_keys.add(tmp_path / "keys", "admin", "admin")
    service = Service(ServiceSettings(tmp_path / "data", keys=tmp_path / "keys"), {})
    service.rates.address_rate = 0.01
    (tmp_path / "keys").unlink()
    service.api_keys.refresh()
    monkeypatch.setattr(api_keys, "GRACE", -1.0)

    async def main():
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.get("/v1/limits")).status_code for _ in range(2)]

    assert event_loops.run(main()) == [503, 429]


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """A service that trusts this machine as a proxy, and logs every request as slow."""
    flags = ("--trusted-proxy", "127.0.0.1", "--slow", "0.000001")
    with running(tmp_path_factory.mktemp("proxied"), "Budgetron budget=10", *flags) as service:
        yield service


def test_limits_are_changed_at_run_time_and_recorded(proxied):
    def sent_from(address):
        return {"X-Forwarded-For": address}

    with proxied.client() as client:
        assert client.get("/v1/limits").json() == {
            "rate": 0.0, "address_rate": 0.0, "address_connections": 0, "slow_seconds": 1e-6,
        }  # fmt: skip
        wrong = client.put("/v1/limits", json={})
        assert wrong.status_code == 422 and '"address_rate"' in wrong.json()["error"]["message"]
        assert client.put("/v1/limits", json={"address_rate": -1}).status_code == 400
        changed = client.put("/v1/limits", json={"address_rate": 0.01}, headers=sent_from("203.0.113.5"))
        assert changed.status_code == 200 and changed.json()["address_rate"] == 0.01
        # At this rate a full bucket holds 0.02 requests. Every request takes 1, and so leaves a debt.
        assert client.get("/v1/models", headers=sent_from("192.0.2.1")).status_code == 200
        refused = client.get("/v1/models", headers=sent_from("192.0.2.1"))
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["kind"] == "too_many" and "192.0.2.1" in refused.json()["error"]["message"]
        # The limit is checked first, so an unknown path is not answered with 404.
        assert client.get("/v1/unknown", headers=sent_from("192.0.2.1")).status_code == 429
        assert client.get("/healthz", headers=sent_from("192.0.2.1")).status_code == 200
        assert client.get("/v1/limits", headers=sent_from("192.0.2.1")).status_code == 200  # never limited
        assert client.get("/v1/models", headers=sent_from("192.0.2.2")).status_code == 200  # another client
        # The address is new, but counting the request empties its bucket before the 30 examples are counted.
        many = {"examples": [{"features": [1.0], "label": i % 2} for i in range(30)]}
        assert client.post("/v1/learn", json=many, headers=sent_from("192.0.2.3")).status_code == 429
        reset = client.put("/v1/limits", json={"address_rate": 0, "slow_seconds": 0}, headers=sent_from("203.0.113.6"))
        assert reset.status_code == 200
        assert client.get("/v1/models", headers=sent_from("192.0.2.1")).status_code == 200
        lines = client.get("/v1/audit").json()["actions"]
    assert [line["outcome"] for line in lines] == ["done", "done", "malformed", "refused"]
    assert lines[1]["details"] == {"address_rate": {"from": 0.0, "to": 0.01}}
    assert {line["action"] for line in lines} == {"PUT limits"} and lines[1]["address"] == "203.0.113.5"
    assert all(line["who"] == "anonymous" and line["model"] is None for line in lines)
    slow = proxied.events("slow")
    assert slow and {"method", "route", "model", "status", "key", "address", "of_service"} <= set(slow[0])
    with proxied.client() as client:
        assert client.get("/v1/model").status_code == 200
