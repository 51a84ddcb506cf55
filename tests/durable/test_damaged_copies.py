"""Writes to a copy that fail, and objects of a copy that are lost or damaged: nothing is lost unnoticed.

A copy consists of runs. A run has a database, called its *base*, and *segments* with the records that follow.
"""

from __future__ import annotations

import hashlib
import re
import time

import msgspec
import pytest
from copied_blocks import BLOCKS, BOTH_STORES, MODEL, restored

from budgetron.durable import DamagedLog, Host, Replicator, open_store, restore, verify
from budgetron.durable.replication.history import plan, read_runs
from budgetron.durable.replication.objects import BASE, VERSION, head_path
from budgetron.errors import StorageError


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
    for segment in latest.segments:  # now delete the rest of the run too
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


def test_a_lost_end_of_an_earlier_run_is_noticed(tmp_path, url, copied):
    store = open_store(url)
    run, following = read_runs(store)[-2:]
    # The base of the next run has the kind BASE, so the records of this run lead to it.
    assert following.base.kind == BASE and run.segments[-1].last_record == following.base.last_record
    store.delete(run.segments[-1].path)
    last = run.segments[-2].last_record
    assert [run.missing for run in read_runs(store)[-2:]] == [True, False]
    with pytest.raises(DamagedLog, match=f"after record {last} is missing"):
        restore(url, tmp_path / "new", at=run.segments[-1].at / 1000)
    restore(url, tmp_path / "new", position=last)


@pytest.mark.parametrize("kind", ["head", "segment"])
def test_an_object_of_a_newer_version_is_rejected_with_the_advice_to_update(tmp_path, url, copied, kind):
    store = open_store(url)
    run = read_runs(store)[-1]
    path = head_path(run.base.epoch) if kind == "head" else run.segments[0].path
    # The newer version has other fields, of other types.
    value = {"version": VERSION + 1, "run": "a text"} if kind == "head" else [VERSION + 1, "a text"]
    content = msgspec.msgpack.encode(value)
    store.put(path, content + hashlib.sha256(content).digest())
    message = f"{path}: its version is {VERSION + 1}, and this budgetron reads {VERSION}. Update budgetron."
    with pytest.raises(DamagedLog, match=re.escape(message) + "$"):
        restore(url, tmp_path / "new")
