"""A copy of a host: every state can be restored, a standby follows it, and a former owner cannot write to it."""

from __future__ import annotations

import time
from importlib.util import find_spec

import pytest
from host_streams import MODELS, blocks, close_without_snapshot

from budgetron.durable import (
    DamagedLog,
    Host,
    NotCopied,
    Replicator,
    StaleOwner,
    StandbyOnly,
    open_store,
    restore,
    verify,
)
from budgetron.durable.replication.fencing import Claim, claim, claims
from budgetron.durable.replication.follower import Follower
from budgetron.durable.replication.following import unused_number
from budgetron.durable.replication.history import plan, read_runs
from budgetron.durable.replication.objects import head_path
from budgetron.durable.replication.retention import prune
from budgetron.errors import InputError, StorageError

MODEL = MODELS["random"]
BLOCKS = blocks(n=72, size=6)
BOTH_STORES = pytest.mark.parametrize("url", ["directory", "fsspec"], indirect=True)


@pytest.fixture
def url(request, tmp_path):
    """The URL of a new copy, in the kind of store that `BOTH_STORES` names.

    Tests without that mark use memory, which is fastest; without fsspec, a directory.
    """
    kind = getattr(request, "param", "")
    if kind == "directory" or (not kind and find_spec("fsspec") is None):
        yield str(tmp_path / "copy")
        return
    fsspec = pytest.importorskip("fsspec", reason="the extra 'replicate' is not installed")
    yield f"memory://copies/{tmp_path.name}"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def copied(tmp_path, url):
    """A host that was copied after every block, its replicator, and the model file after every record."""
    host = Host.open(tmp_path / "owner", MODEL, snapshot_every=20)
    replicator = Replicator(tmp_path / "owner", open_store(url))
    states = {}
    for n, block in enumerate(BLOCKS):
        learned = host.learn(*block, key=f"block {n}")
        states[learned.position] = host.content()
        replicator.copy()
    yield host, replicator, states
    host.close()


def restored(url, folder, **point):
    """The model file after a restore of the copy into a new folder."""
    restore(url, folder, **point)
    with Host.open(folder) as host:
        return host.content()


@BOTH_STORES
def test_every_record_can_be_restored(tmp_path, url, copied):
    host, _, states = copied
    assert len(states) == len(BLOCKS) == host.position
    assert len(read_runs(open_store(url))) > 2  # restores begin from different bases
    for position, content in list(states.items())[::3]:
        assert restored(url, tmp_path / f"at {position}", position=position) == content
    assert restored(url, tmp_path / "latest") == host.content()
    assert verify(url).examples == 72


def test_restored_keys_learn_nothing_twice(tmp_path, url, copied):
    restore(url, tmp_path / "new", position=7)
    with Host.open(tmp_path / "new") as host:
        assert host.position == 1_000_001  # far above the numbers that the owner may have used since
        again = host.learn(*BLOCKS[6], key="block 6")
        assert again.repeated and again.position == 7
        assert not host.learn(*BLOCKS[7], key="block 7").repeated


def test_a_new_owner_leaves_numbers_to_records_that_were_not_copied():
    """The former owner may have used the numbers after the last copied record, also just before a round number."""
    for position in (0, 7, 499_999, 500_000, 999_999, 1_000_000, 1_000_001):
        assert unused_number(position) >= position + 500_000


def test_a_copy_is_restored_to_a_point_in_time(tmp_path, url, copied):
    _, _, states = copied
    objects = [segment for run in read_runs(open_store(url)) for segment in run.segments]
    chosen = objects[len(objects) // 2]
    last = max(segment.last_record for segment in objects if segment.at <= chosen.at)
    assert restored(url, tmp_path / "then", at=chosen.at / 1000) == states[last]
    with pytest.raises(InputError, match="because the copy begins then"):
        restore(url, tmp_path / "then", at=1.0)
    with pytest.raises(InputError, match="a record of the copy: 1 to "):
        restore(url, tmp_path / "then", position=99)


def test_a_directory_is_cut_back_to_a_record(tmp_path, copied):
    host, _, states = copied
    host.close()
    with pytest.raises(InputError, match="part of a snapshot"):
        restore(tmp_path / "owner", tmp_path / "owner", position=2)
    assert restored(tmp_path / "owner", tmp_path / "owner", position=11) == states[11]
    with pytest.raises(InputError, match="Only a copy"):
        restore(tmp_path / "owner", tmp_path / "owner", at=1e9)


def test_records_that_the_model_rejects_are_removed_from_the_copy(tmp_path, url):
    """A rejected record is in the log, and is copied, until the next commit clears it."""
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", store)
        host.learn(*BLOCKS[0])
        replicator.copy()
        follower = Follower(tmp_path / "standby", store)
        for n in (1, 2, 3):
            with pytest.raises(InputError):
                host.learn(BLOCKS[n][0][:, :2], *BLOCKS[n][1:], key=f"block {n}")  # too few features
            replicator.copy()
            host.learn(*BLOCKS[n], key=f"block {n}")
            replicator.copy()
            follower.poll()
        assert follower.host.position == host.position == 7
        assert follower.host.content() == host.content() == restored(url, tmp_path / "new")
        follower.host.close()


def test_streams_are_copied(tmp_path, url):
    from budgetron.durable import Request, StreamRows

    rows = StreamRows([3, 5, 6, 7, 8, 9])
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", open_store(url))
        host.learn(*BLOCKS[0])
        replicator.copy()
        request = Request(*BLOCKS[1], "stream", rows=rows)
        (learned,) = host.learn_many([request])
        replicator.copy()
        restore(url, tmp_path / "new")
        with Host.open(tmp_path / "new") as new:
            (again,) = new.learn_many([request])
            assert again.repeated and (again.margins == learned.margins).all()


def test_an_owner_shows_that_it_is_alive_between_rare_copies(tmp_path, url, monkeypatch):
    """Otherwise a standby with --take-over-after would take over from an owner with a long --replicate-every."""
    monkeypatch.setattr("budgetron.durable.replication.replicator._HEARTBEAT", 0.05)
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", store, every=3600)
        host.learn(*BLOCKS[0])
        replicator.copy()
        head, deadline = store.get(head_path(1)), time.monotonic() + 30
        host.learn(*BLOCKS[1])
        replicator.start()
        while store.get(head_path(1)) == head and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.get(head_path(1)) != head
        assert replicator.position == 1  # the second record waits for the next copy
        claim(store, tmp_path / "owner")  # as a process that takes over does
        replicator._thread.join(30)
        assert not replicator._thread.is_alive() and isinstance(replicator.error, StaleOwner)
        replicator.stop()


@BOTH_STORES
def test_a_standby_follows_and_takes_over(tmp_path, url, copied):
    host, replicator, _ = copied
    store = open_store(url)
    follower = Follower(tmp_path / "standby", store)
    standby = follower.host
    assert standby.content() == host.content()
    with pytest.raises(StandbyOnly):
        standby.learn(*BLOCKS[0])
    host.learn(*BLOCKS[0])  # the follower learns this record from a segment
    replicator.copy()
    follower.poll()
    assert standby.content() == host.content() and standby.position == host.position
    host.withdraw(host.position, row=0)  # a correction changes an old record, so the follower must rebuild its database
    replicator.copy()
    follower.poll()
    assert standby.content() == host.content() and standby.n_corrections == host.n_corrections == 1
    host.restore(host.content())
    replicator.copy()
    follower.poll()
    assert standby.position == host.position

    host.learn(*BLOCKS[1], key="not copied")
    lost = []
    replicator._on_lost = lost.append
    claimed = follower.take_over()
    with pytest.raises(StaleOwner):  # the former owner is alive
        replicator.copy()
    assert len(lost) == 1
    later = Replicator(tmp_path / "standby", store, claimed=claimed, parent=follower.applied)
    assert not standby.learn(*BLOCKS[2], key="at the new owner").repeated
    later.copy()
    assert restored(url, tmp_path / "new") == standby.content()
    assert standby.position == 1_000_002
    host.close()
    with pytest.raises(StaleOwner, match="--take-over"):  # after a restart of the former owner
        Replicator(tmp_path / "owner", store)
    back = Follower(tmp_path / "owner", store)  # the former owner may return as a standby; its old database stays
    assert back.host.content() == standby.content() and (tmp_path / "owner" / "replaced-1.sqlite").exists()
    back.host.close()
    close_without_snapshot(standby)
    assert Replicator(tmp_path / "standby", store).claim.epoch == 3


def test_a_former_owner_that_writes_too_late_is_rejected(tmp_path, url, copied, monkeypatch):
    """The former owner checks the epoch before another process takes over, and writes afterwards."""
    host, replicator, _ = copied
    store = open_store(url)
    follower = Follower(tmp_path / "standby", store)
    host.learn(*BLOCKS[0])
    claimed = follower.take_over()
    monkeypatch.setattr(Claim, "check", lambda self, store: None)
    replicator.copy()
    monkeypatch.undo()
    later = Replicator(tmp_path / "standby", store, claimed=claimed, parent=follower.applied)
    later.copy()
    assert restored(url, tmp_path / "new") == follower.host.content() != host.content()
    with pytest.raises(InputError, match="a record of the copy"):
        plan(store, host.position)
    close_without_snapshot(follower.host)


def test_nothing_is_acknowledged_that_a_new_owner_has_not_read(tmp_path, url):
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", store, every=0)
        host.before_answer = replicator.copy
        host.learn(*BLOCKS[0])
        follower = Follower(tmp_path / "standby", store)
        put = store.put

        def take_over_first(name, content):
            store.put = put
            follower.take_over()
            put(name, content)

        store.put = take_over_first
        follower._store = open_store(url)
        with pytest.raises(StaleOwner):
            host.learn(*BLOCKS[1])
        assert follower.host.model.n_seen_ == 6 and host.model.n_seen_ == 12
        close_without_snapshot(follower.host)


@BOTH_STORES
def test_a_claim_fails_if_another_process_claims_at_the_same_time(tmp_path, url):
    store = open_store(url)
    assert claim(store, tmp_path).epoch == 1
    rival = Claim(2, "other", "process")

    class Racing(type(store)):
        def put(self, name, content):
            super().put(f"epochs/{rival.name}", b"")
            super().put(name, content)

    racing = open_store(url)
    racing.__class__ = Racing
    with pytest.raises(StaleOwner):
        claim(racing, tmp_path, take_over=True)
    assert claims(store)[-1] == rival


def test_with_a_copy_before_each_answer_nothing_acknowledged_is_lost(tmp_path, url):
    """If the copy fails, the answer says so, and a retry succeeds."""
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", store, every=0)
        host.before_answer = replicator.copy
        for n in range(3):
            position = host.learn(*BLOCKS[n], key=str(n)).position
            assert plan(store).position == position == replicator.position

        def broken():
            raise StorageError("the network is down")

        host.before_answer = broken
        for _ in range(2):
            with pytest.raises(NotCopied, match="the network is down"):
                host.learn(*BLOCKS[3], key="3")
        host.before_answer = replicator.copy
        assert host.learn(*BLOCKS[3], key="3").repeated
        assert plan(store).position == 4
        assert host.model.n_seen_ == 24


@BOTH_STORES
def test_a_write_that_arrived_although_it_reported_a_failure_is_accepted(tmp_path, url, monkeypatch):
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL) as host:
        replicator = Replicator(tmp_path / "owner", store)
        host.learn(*BLOCKS[0])
        replicator.copy()
        put = type(store).put

        def arrives_but_fails(self, name, content):
            put(self, name, content)
            raise StorageError("timeout")

        for n in (1, 2):
            host.learn(*BLOCKS[n])
            monkeypatch.setattr(type(store), "put", arrives_but_fails)
            with pytest.raises(StorageError, match="timeout"):
                replicator.copy()
            monkeypatch.undo()
        replicator.copy()
        assert not read_runs(store)[-1].missing
        assert restored(url, tmp_path / "new") == host.content()


@BOTH_STORES
@pytest.mark.parametrize("arrives", [False, True])
def test_after_a_failed_write_of_a_database_nothing_is_lost(tmp_path, url, monkeypatch, arrives):
    store = open_store(url)
    with Host.open(tmp_path / "owner", MODEL, snapshot_every=20) as host:
        replicator = Replicator(tmp_path / "owner", store)
        put, failed = type(store).put, []

        def no_base(self, name, content):
            is_base = "-base-" in name
            if arrives or not is_base:
                put(self, name, content)
            if is_base:
                failed.append(name)
                raise StorageError("the disk is full")

        for n, block in enumerate(BLOCKS):
            host.learn(*block)
            monkeypatch.setattr(type(store), "put", no_base if n % 3 else put)
            try:
                replicator.copy()
            except StorageError:
                continue
            assert plan(store).position == replicator.position == host.position
            assert not read_runs(store)[-1].missing
        assert failed
        monkeypatch.undo()
        replicator.copy()
        assert restored(url, tmp_path / "new") == host.content()


def test_a_lost_database_is_noticed(tmp_path, url, copied):
    store = open_store(url)
    before, latest = read_runs(store)[-2:]
    last = before.last_object.last_record
    assert before.base.epoch == latest.base.epoch
    store.delete(latest.base.path)
    for point in ({}, {"at": time.time()}):
        with pytest.raises(DamagedLog, match=f"after record {last} is missing"):
            restore(url, tmp_path / "new", **point)
    with pytest.raises(DamagedLog, match=r"^copy: .* is incomplete"):
        verify(url)
    for segment in latest.segments:  # then the whole run is missing
        store.delete(segment.path)
    with pytest.raises(DamagedLog, match=f"after record {last} is missing"):
        restore(url, tmp_path / "new")
    restore(url, tmp_path / "new", position=last)
    for run in read_runs(store):
        store.delete(run.base.path)
    with pytest.raises(DamagedLog, match="its database is missing"):
        restore(url, tmp_path / "another")


def test_a_damaged_copy_is_noticed(tmp_path, url, copied):
    store = open_store(url)
    run = read_runs(store)[-1]
    path = run.segments[1].path
    content = store.get(path)
    store.put(path, content[:-40] + b"x" + content[-39:])
    with pytest.raises(DamagedLog, match="does not match its checksum"):
        restore(url, tmp_path / "new")
    store.delete(path)
    with pytest.raises(DamagedLog, match=f"after record {run.segments[0].last_record} is missing"):
        restore(url, tmp_path / "new")
    with pytest.raises(DamagedLog, match=f"--at {run.segments[0].last_record}$"):
        restore(url, tmp_path / "new", at=time.time())
    with pytest.raises(DamagedLog, match=r"^copy: .* is incomplete"):
        verify(url)
    restore(url, tmp_path / "new", at=run.base.at / 1000)
    restore(url, tmp_path / "new", position=run.segments[0].last_record)


@BOTH_STORES
def test_old_objects_are_deleted(url, copied):
    host, replicator, _ = copied
    store = open_store(url)
    before = read_runs(store)
    prune(store, keep=3600.0)
    assert read_runs(store) == before
    prune(store, keep=-1.0)
    assert read_runs(store) == before[-1:]
    host.learn(*BLOCKS[0])
    replicator.copy()
    assert plan(store).position == host.position


def test_a_missing_extra_is_named_in_the_error(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(Exception, match="budgetron\\[replicate\\]"):
        open_store("memory://copy")
