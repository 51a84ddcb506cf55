"""A copy of a host has its streams and its rejected records, and old objects in it are deleted."""

from __future__ import annotations

import pytest
from copied_blocks import BLOCKS, BOTH_STORES, MODEL, restored

from budgetron.durable import Host, Replicator, open_store, restore
from budgetron.durable.replication.follower import Follower
from budgetron.durable.replication.history import plan, read_runs
from budgetron.durable.replication.retention import prune
from budgetron.errors import InputError


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
