"""A standby follows a copy and takes over; a former owner cannot change the copy, and nothing acknowledged is lost."""

from __future__ import annotations

import time

import pytest
from copied_blocks import BLOCKS, BOTH_STORES, MODEL, restored
from host_streams import close_without_snapshot

from budgetron.durable import Host, NotCopied, Replicator, StaleOwner, StandbyOnly, open_store
from budgetron.durable.replication.fencing import Claim, claim, claims
from budgetron.durable.replication.follower import Follower
from budgetron.durable.replication.following import unused_number
from budgetron.durable.replication.history import plan
from budgetron.durable.replication.objects import head_path
from budgetron.errors import InputError, StorageError


def test_a_new_owner_leaves_numbers_to_records_that_were_not_copied():
    """The former owner may have used numbers after the last copied record. The new one skips half a million or more."""
    for position in (0, 7, 499_999, 500_000, 999_999, 1_000_000, 1_000_001):
        assert unused_number(position) >= position + 500_000


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
