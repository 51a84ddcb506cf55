"""Services with a copy: bounded loss after a kill, restores to a record, and a standby that takes over."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time

import httpx
import pytest
from click.testing import CliRunner
from running import Running, running, until

from budgetron import Perceptron
from budgetron.cli import main
from budgetron.distributed.shard_options import NAME as JOURNAL
from budgetron.durable import DiskRefused, Host, Replicator, open_store
from budgetron.durable.replication.copied_versions import fetch_versions
from budgetron.durable.versions import Versions
from budgetron.errors import InputError
from budgetron.service.replication import CopySettings, Replication

MODEL = "RandomBudgetPerceptron budget=30"


def learn(client, n):
    examples = [{"features": [n / 50, 1.0, i], "label": (n + i) % 2, "task": f"t{n % 4}"} for i in range(3)]
    return client.post("/v1/learn", json={"examples": examples, "key": f"block {n}"})


def fetched_versions(copy, folder):
    fetch_versions(open_store(copy / "default"), folder)
    return Versions(folder)


def copied_position(client):
    return client.get("/v1/copy").json()["copied"]


def budgetron(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def seen(directory):
    with Host.open(directory) as host:
        return host.model.n_seen_


def kill_while_learning(service, acknowledged, until_n):
    """Learn until `until_n` requests are acknowledged, then kill the process in the middle of another request."""
    with service.client() as client:
        while len(acknowledged) < until_n:
            n = len(acknowledged)
            assert learn(client, n).status_code == 200
            acknowledged.append(n)
    late = threading.Thread(target=_one_more, args=[service])
    late.start()
    service.kill()
    late.join()


def _one_more(service):
    with contextlib.suppress(httpx.TransportError), service.client() as client:
        client.post("/v1/learn", json={"features": [0.1, 1.0, 0.0], "label": 1, "task": "t1"})


def kill_and_restore(tmp_path, rounds, per_round):
    """Kill the service under load, delete its directory, and restore the copy, several times.

    With --replicate-every 0, the copy must have everything that was acknowledged.
    """
    acknowledged: list[int] = []
    data, copy = tmp_path / "data", tmp_path / "copy"
    options = (MODEL, "--replicate-to", copy, "--replicate-every", 0, "--snapshot-every", 20)
    for number in range(1, rounds + 1):
        # The first start has no copy yet. Later starts use a restored directory, so they must take over the copy.
        service = Running(data, *options, *(() if number == 1 else ("--take-over",)))
        kill_while_learning(service, acknowledged, per_round * number)
        shutil.rmtree(data)
        budgetron("restore", copy / "default", data / "default")
        assert seen(data / "default") in (3 * len(acknowledged), 3 * len(acknowledged) + 1)
        with Host.open(data / "default") as host:
            remembered = host.answers_to("")
            assert all(f"block {n}" in remembered for n in acknowledged)
            late = host.model.n_seen_ - 3 * len(acknowledged)
        if late:  # the request during the kill was learned too: undo it, so that the counts of the next round agree
            budgetron("restore", copy / "default", data / "default", "--at", _last_keyed(remembered))


def _last_keyed(remembered):
    return max(answer.position for answer in remembered.values())


def test_nothing_acknowledged_is_lost_with_the_machine(tmp_path):
    kill_and_restore(tmp_path, 1, 12)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_in_ten_kills(tmp_path):
    kill_and_restore(tmp_path, 10, 15)


def kill_while_copying(tmp_path, rounds, every):
    """Kill the service under load, delete its directory, and restore the copy, several times.

    The copy must have every label that was acknowledged before the recovery point, which is the time when GET copy was
    sent, minus `age_seconds`.
    """
    data, copy = tmp_path / "data", tmp_path / "copy"
    options = (MODEL, "--replicate-to", copy, "--replicate-every", every, "--snapshot-every", 20)
    n = 0
    for number in range(1, rounds + 1):
        service = Running(data, *options, *(() if number == 1 else ("--take-over",)))
        acknowledged: dict[int, float] = {}
        sender = threading.Thread(target=_learn_until_it_is_gone, args=[service, acknowledged, n])
        sender.start()
        with service.client() as client:
            first = until(lambda acknowledged=acknowledged: list(acknowledged))[0]
            # Wait for a copy that began after the first label, so that some labels are older than the recovery point.
            point = until(lambda client=client, at=acknowledged[first]: _later(_recovery_point(client), at))
        service.kill()
        sender.join()
        shutil.rmtree(data)
        budgetron("restore", copy / "default", data / "default")
        with Host.open(data / "default") as host:
            remembered = host.answers_to("")
        older = {key for key, at in acknowledged.items() if at < point}
        learned_keys = {key for key in range(n, n + len(acknowledged) + 1) if f"block {key}" in remembered}
        assert first in older <= learned_keys
        assert learned_keys == set(range(n, n + len(learned_keys)))  # the copy may end early, but has no gaps
        n += len(learned_keys)


def _recovery_point(client):
    """The time before which, according to the service, all acknowledged labels are in the copy."""
    asked = time.monotonic()
    return asked - client.get("/v1/copy").json()["age_seconds"] - 0.001  # the age is rounded to milliseconds


def _later(time, other):
    return time if time > other else None


def _learn_until_it_is_gone(service, acknowledged, n):
    with contextlib.suppress(httpx.TransportError), service.client() as client:
        while learn(client, n).status_code == 200:
            acknowledged[n] = time.monotonic()
            n += 1


def test_labels_older_than_the_recovery_point_are_in_the_copy(tmp_path):
    kill_while_copying(tmp_path, 1, 1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_labels_older_than_the_recovery_point_are_in_the_copy_in_eight_kills(tmp_path):
    kill_while_copying(tmp_path, 8, 1)


def test_a_standby_takes_over_from_a_living_owner(tmp_path):
    copy, owner_data, standby_data = tmp_path / "copy", tmp_path / "owner", tmp_path / "standby"
    options = ("--replicate-every", 0.05)
    with running(owner_data, MODEL, "--replicate-to", copy, *options) as owner, owner.client() as to_owner:
        for n in range(5):
            assert learn(to_owner, n).status_code == 200
        until(lambda: copied_position(to_owner) == 5)
        assert "budgetron_copied_position" in to_owner.get("/metrics").text
        with running(standby_data, "--standby-of", copy, *options) as standby, standby.client() as to_standby:
            # The standby predicts and follows, and does not learn.
            assert learn(to_owner, 5).status_code == 200
            until(lambda: to_standby.get("/v1/copy").json()["position"] == 6)
            question = {"features": [0.3, 1.0, 1.0], "task": "t1"}
            answers = [client.post("/v1/predict", json=question).json() for client in (to_owner, to_standby)]
            assert answers[0] == answers[1]
            refused = learn(to_standby, 6)
            assert refused.status_code == 503 and refused.json()["error"]["kind"] == "standby"
            ready = to_standby.get("/readyz")
            assert ready.status_code == 503 and ready.json()["status"] == "standby"

            # Versions are copied too.
            assert to_owner.put("/v1/versions/v1").status_code == to_owner.post("/v1/versions/v1").status_code == 200
            until(lambda: fetched_versions(copy, tmp_path / "fetched").state.current == "v1")
            until(lambda: to_standby.get("/v1/copy").json()["position"] == 7)

            # The standby takes over. The owner is still alive, and notices that it has lost the copy.
            assert to_standby.post("/v1/takeover").json()["position"] > 10**6
            until(lambda: to_standby.get("/readyz").status_code == 200)
            answer = until(lambda: (ready := to_owner.get("/readyz")).status_code == 503 and ready).json()
            assert answer["reasons"]["default"].startswith("not_owner: ")
            refused = learn(to_owner, 6)
            assert refused.status_code == 503 and refused.json()["error"]["kind"] == "not_owner"
            assert to_owner.get("/v1/copy").json()["role"] == "former owner"
            assert to_owner.post("/v1/takeover").status_code == 409  # only a standby can take over
            assert to_owner.post("/v1/predict", json=question).status_code == 200

            # The new owner has two versions: v1, and the model that v1 replaced, which was saved automatically.
            answer = to_standby.get("/v1/versions").json()
            assert answer["current"] == "v1" and {version["name"] for version in answer["versions"]} == {
                "v1",
                answer["rollback"],
            }

            # The new owner learns, and recognises the keys of requests that the former owner has learned.
            assert learn(to_standby, 5).json()["repeated"] is True
            position = learn(to_standby, 6).json()["position"]
            until(lambda: copied_position(to_standby) == position)
            standby.kill()

    assert "intact (examples: 21," in budgetron("verify", copy / "default")
    assert "records 1 to 6" in budgetron("restore", copy / "default", "--list")
    budgetron("restore", copy / "default", tmp_path / "new", "--at", 3)
    assert seen(tmp_path / "new") == 9


def test_a_standby_takes_over_after_a_silence(tmp_path):
    url = str(tmp_path / "copy")
    with Host.open(tmp_path / "owner", Perceptron) as host:
        host.learn([[0.0, 1.0], [1.0, 0.0]], [0, 1])
        Replicator(host.directory, open_store(f"{url}/default")).copy()  # the owner copies once and then stops
        standby = Replication("default", tmp_path / "standby", CopySettings(url, True, 0.02, take_over_after=0.1), 1000)
        follower = standby.open(None)
        until(lambda: (standby.state()["role"], standby.state()["epoch"]) == ("owner", 2))
        follower.learn([[0.0, 1.0]], [0])
        standby.stop()
        assert standby.state()["copied"] == follower.position
        follower.close()


def test_a_new_owner_keeps_copying_if_its_first_copy_fails(tmp_path, monkeypatch):
    url = str(tmp_path / "copy")
    with Host.open(tmp_path / "owner", Perceptron) as host:
        host.learn([[0.0, 1.0], [1.0, 0.0]], [0, 1])
        Replicator(host.directory, open_store(f"{url}/default")).copy()
    standby = Replication("default", tmp_path / "standby", CopySettings(url, True, 0.02), 1000)
    follower = standby.open(None)
    failures = iter([DiskRefused("the network is down")])
    copy = Replicator.copy

    def copy_after_failures(self):
        for error in failures:
            raise error
        copy(self)

    monkeypatch.setattr(Replicator, "copy", copy_after_failures)
    assert standby.take_over()
    position = follower.learn([[0.0, 1.0]], [0]).position
    until(lambda: standby.state()["copied"] == position)
    standby.stop()
    follower.close()


def test_models_that_cannot_be_copied_or_followed_are_refused(tmp_path):
    for options, words in (
        (("--replicate-to", tmp_path / "copy", "--shards", 2), "Models in shards cannot be copied continuously"),
        (("--standby-of", tmp_path / "copy"), "Start the owner first"),
        (("--standby-of", tmp_path / "a", "--replicate-to", tmp_path / "b"), "one at a time"),
    ):
        result = CliRunner().invoke(main, ["serve", "--data", str(tmp_path / "data"), *map(str, options)])
        assert result.exit_code == 2 and words in result.output, result.output
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / JOURNAL).touch()
    with Host.open(tmp_path / "owner", Perceptron) as host:
        Replicator(host.directory, open_store(str(tmp_path / "new" / "default"))).copy()  # it has learned no labels
    with pytest.raises(InputError, match="when the owner has learned its first labels"):
        Replication("default", tmp_path / "standby", CopySettings(str(tmp_path / "new"), True), 1000).open(None)
    with pytest.raises(InputError, match=r"It cannot be copied continuously\. Leave out --replicate-to"):
        Replication("default", tmp_path / "shards", CopySettings(str(tmp_path / "copy")), 1000).open(None)
    result = CliRunner().invoke(main, ["restore", str(tmp_path / "none"), str(tmp_path / "data")])
    assert result.exit_code == 2 and "a backup, a copy or the directory" in result.output
