"""A copy of a host: its earlier states can be restored, a standby follows it, and a former owner cannot change it."""

from __future__ import annotations

import time

import pytest
from copied_blocks import BLOCKS, BOTH_STORES, MODEL, restored
from host_streams import close_without_snapshot

from budgetron.durable import (
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


@BOTH_STORES
def test_a_copy_is_restored_to_a_record(tmp_path, url, copied):
    host, _, states = copied
    assert len(states) == len(BLOCKS) == host.position
    assert len(read_runs(open_store(url))) > 2  # so restores to different records begin from different databases
    for position, content in list(states.items())[::3]:
        assert restored(url, tmp_path / f"at {position}", position=position) == content
    assert restored(url, tmp_path / "latest") == host.content()
    assert verify(url).examples == 72


def test_a_restored_host_does_not_learn_a_request_twice(tmp_path, url, copied):
    restore(url, tmp_path / "new", position=7)
    with Host.open(tmp_path / "new") as host:
        assert host.position == 1_000_001  # far above the numbers that the owner may have used since
        again = host.learn(*BLOCKS[6], key="block 6")
        assert again.repeated and again.position == 7
        assert not host.learn(*BLOCKS[7], key="block 7").repeated


def test_a_new_owner_leaves_numbers_to_records_that_were_not_copied():
    """The former owner may have used numbers after the last copied record. The new one skips half a million or more."""
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


def test_a_follower_and_a_restore_reject_the_records_that_the_model_rejected(tmp_path, url):
    """A rejected record stays in the log until the next commit removes it. The copy may keep it."""
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
        head, deadline = store.get(head_path(1)), time.monotonic() + 300
        host.learn(*BLOCKS[1])
        replicator.start()
        while store.get(head_path(1)) == head and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.get(head_path(1)) != head
        assert replicator.position == 1  # the second record waits for the next copy
        claim(store, tmp_path / "owner")  # as a process that takes over does
        replicator._thread.join(300)
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
    with pytest.raises(StaleOwner):  # the former owner is still alive, but no longer owns the copy
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


def test_what_a_former_owner_writes_too_late_is_ignored(tmp_path, url, copied, monkeypatch):
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
