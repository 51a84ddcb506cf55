"""Faults of a host: two owners, damaged files, a full or read-only disk."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest
from host_streams import MODELS, blocks, close_without_snapshot, learn_without_host, same_model

import budgetron
from budgetron.durable import AlreadyOwned, DamagedLog, DiskRefused, Host, StaleOwner, repair
from budgetron.durable.storage.sqlite_file import SqliteFile
from budgetron.errors import StorageError
from budgetron.learners.lifecycle.saved import content_of


def learned_host(folder, n=100, **options):
    """A host that has learned the first n examples."""
    host = Host.open(folder, MODELS["random"], **options)
    for block in blocks(n):
        host.learn(*block)
    return host


# ---- owners


def test_a_second_owner_is_rejected(tmp_path):
    with Host.open(tmp_path, MODELS["random"]), pytest.raises(AlreadyOwned, match="is open in another process"):
        Host.open(tmp_path, MODELS["random"])
    Host.open(tmp_path, MODELS["random"]).close()


def test_a_file_system_without_locks_is_not_reported_as_another_owner(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def without_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", without_locks)
    with pytest.raises(StorageError, match=r"cannot be locked: .* Choose a directory on a local disk") as caught:
        Host.open(tmp_path, MODELS["random"])
    assert type(caught.value) is StorageError
    monkeypatch.undo()
    Host.open(tmp_path, MODELS["random"]).close()


def test_a_later_epoch_takes_over_and_the_stale_owner_is_rejected(tmp_path):
    sent = blocks(100)
    old = Host.open(tmp_path, MODELS["random"], epoch=3)
    old.learn(*sent[0])
    new = Host.open(tmp_path, epoch=4)
    new.learn(*sent[1])
    before = old.content()
    restore, forget = (lambda: old.restore(before)), (lambda: old.forget_task("ann"))
    for write in (lambda: old.learn(*sent[2]), old.snapshot, restore, forget):
        with pytest.raises(StaleOwner, match="took over the directory"):
            write()
    assert old.content() == before
    for epoch in (3, 4):
        with pytest.raises(StaleOwner, match="higher than the epoch of the last owner, 4"):
            Host.open(tmp_path, epoch=epoch)
    new.learn(*sent[3])
    old.close()
    close_without_snapshot(new)
    with Host.open(tmp_path) as last:
        assert last.epoch == 5
        assert same_model(last.model, learn_without_host(MODELS["random"], [sent[0], sent[1], sent[3]])[0])


def test_a_later_epoch_takes_over_a_locked_directory(tmp_path):
    old = learned_host(tmp_path, 40)
    with Host.open(tmp_path, epoch=10) as new:
        assert same_model(new.model, old.model)
        with pytest.raises(StaleOwner):
            old.learn(*blocks(20)[0])
    close_without_snapshot(old)


# ---- damage


def test_a_flipped_bit_in_the_log_is_detected_and_can_be_repaired(tmp_path):
    host = learned_host(tmp_path, 100)
    host._state.log.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    close_without_snapshot(host)
    with sqlite3.connect(tmp_path / "host.sqlite") as db:
        (block,) = db.execute("SELECT block FROM log WHERE number = 3").fetchone()
        db.execute("UPDATE log SET block = ? WHERE number = 3", (block[:-1] + bytes([block[-1] ^ 1]),))
    db.close()
    with pytest.raises(DamagedLog, match="record 3 does not match its checksum"):
        Host.open(tmp_path)
    done = repair(tmp_path)
    assert "record 3" in done.damage and (done.last_good, done.last_known) == (2, 5)
    with Host.open(tmp_path) as host:
        assert same_model(host.model, learn_without_host(MODELS["random"], blocks(100)[:2])[0])
        assert host.position == 6
        host.learn(*blocks(20, seed=3)[0])
        assert host.position == 7
    with Host.open(tmp_path) as host:
        assert host.model.n_seen_ == 60


def test_the_loss_of_an_acknowledged_commit_is_detected(tmp_path):
    host = learned_host(tmp_path, 100)
    files = {name: (tmp_path / name).read_bytes() for name in ("host.sqlite", "host.sqlite-wal")}
    # Closing the last connection moves the write-ahead file into the database. A kill would not, so put the files back.
    close_without_snapshot(host)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "host.sqlite-shm").unlink(missing_ok=True)
    wal = tmp_path / "host.sqlite-wal"
    content = bytearray(wal.read_bytes())
    content[-3000] ^= 0xFF  # damages the last commit, which SQLite then ignores without an error
    wal.write_bytes(content)
    with pytest.raises(DamagedLog, match="ends at record 4, but record 5 was acknowledged"):
        Host.open(tmp_path)
    assert repair(tmp_path).last_good == 4
    with Host.open(tmp_path) as host:
        assert same_model(host.model, learn_without_host(MODELS["random"], blocks(100)[:4])[0])


def test_a_damaged_snapshot_falls_back_to_the_one_before(tmp_path, caplog):
    host = learned_host(tmp_path, 300, snapshot_every=100)
    before = host.content()
    close_without_snapshot(host)
    with sqlite3.connect(tmp_path / "host.sqlite") as db:
        newest = db.execute("SELECT max(number) FROM snapshot").fetchone()[0]
        content = db.execute("SELECT content FROM snapshot WHERE number = ?", (newest,)).fetchone()[0]
        db.execute("UPDATE snapshot SET content = ? WHERE number = ?", (content[:100] + b"?" + content[101:], newest))
    db.close()
    with Host.open(tmp_path) as host:
        assert host.content() == before and host.recovery.snapshot < newest
        assert f"snapshot {newest}" in caplog.text and f"starts from snapshot {host.recovery.snapshot}" in caplog.text
    with sqlite3.connect(tmp_path / "host.sqlite") as db:
        db.execute("UPDATE snapshot SET content = x'00'")
    db.close()
    with pytest.raises(DamagedLog, match="no snapshot is intact"):
        Host.open(tmp_path)


@pytest.mark.parametrize("rubbish", [b"not a database" * 500, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_not_a_database_is_rejected(tmp_path, rubbish):
    (tmp_path / "host.sqlite").write_bytes(rubbish)
    with pytest.raises(DamagedLog, match="the log is damaged"):
        Host.open(tmp_path, MODELS["random"])


def test_a_log_of_an_unknown_format_is_rejected(tmp_path):
    learned_host(tmp_path, 20).close()
    with sqlite3.connect(tmp_path / "host.sqlite") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StorageError, match=r"format of the log must be at most .* newer version of budgetron"):
        Host.open(tmp_path)


# ---- disks

FULL = """
import resource, sys
import numpy as np
import budgetron
from budgetron.durable import DiskRefused, Host

host = Host.open(sys.argv[1], lambda: budgetron.RandomBudgetPerceptron(budget=30), snapshot_every=10**9)
rng = np.random.default_rng(0)
def block():
    X = rng.normal(size=(50, 5))
    return X, (X[:, 0] > 0).astype(int), ["ann"] * 50
for _ in range(5):
    host.learn(*block())
limit = 200_000  # bytes per file, which the log reaches after some of the blocks below
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
refused = 0
for _ in range(300):
    before = host.content()
    examples = block()
    try:
        host.learn(*examples)
    except DiskRefused as error:
        assert "Free disk space" in str(error), error
        assert host.content() == before
        refused += 1
        if refused == 3:
            break
assert refused == 3
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
host.learn(*examples)
with open(sys.argv[2], "wb") as file:
    file.write(host.content())
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_learned_while_the_disk_is_full_and_learning_continues_afterwards(tmp_path):
    command = [sys.executable, "-c", FULL, tmp_path / "host", tmp_path / "model"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    with Host.open(tmp_path / "host") as host:
        assert host.content() == (tmp_path / "model").read_bytes()


# Open a directory without write permission. Root may write anywhere, so a process of root becomes another user. That
# user may not be able to read the package, so everything is imported before the change of user.
READ_ONLY = """
import os, sys
import budgetron.learners.lifecycle.files
from budgetron.durable import DiskRefused, Host
os.chmod(sys.argv[1], 0o555)
for name in os.listdir(sys.argv[1]):
    os.chmod(os.path.join(sys.argv[1], name), 0o444)
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    Host.open(sys.argv[1])
except DiskRefused as error:
    print(error)
"""


def test_a_directory_without_write_permission_is_rejected(tmp_path):
    learned_host(tmp_path / "host", 20).close()
    for parent in (tmp_path, *tmp_path.parents[:2]):  # pytest creates them for its own user only
        parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", READ_ONLY, tmp_path / "host"], capture_output=True, text=True)
    (tmp_path / "host").chmod(0o755)
    assert "Host: cannot read or write the directory" in done.stdout, done.stderr


def test_a_directory_that_cannot_be_created_is_rejected(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(DiskRefused, match="cannot read or write the directory"):
        Host.open(tmp_path / "file" / "host", MODELS["random"])


def test_a_failed_read_is_not_called_a_failed_write(tmp_path):
    file = SqliteFile(tmp_path / "log.sqlite", "CREATE TABLE one (number INTEGER);")
    file._connection.set_progress_handler(lambda: 1, 1)  # SQLite aborts every statement
    with pytest.raises(DiskRefused, match="cannot read or write the directory"):
        file.one("SELECT sum(number) FROM one")
    file.close()


def test_nothing_is_acknowledged_without_the_first_snapshot(tmp_path, monkeypatch):
    """A replay without a snapshot would depend on the arguments of `Host.open`. A retry adds no record."""
    host = Host.open(tmp_path, MODELS["budgetron"])
    X, y, tasks = blocks(20)[0]

    def failing(content):
        raise DiskRefused("full")

    monkeypatch.setattr(host._state.snapshots, "write", failing)
    for _ in range(3):
        with pytest.raises(DiskRefused):
            host.learn(X, y, tasks, key="k")
    monkeypatch.undo()
    assert host.learn(X, y, tasks, key="k").repeated and host.snapshot_record == 1
    host.close()


@pytest.mark.parametrize("write", [
    lambda host: host.snapshot(),
    lambda host: host.restore(host.content()),
    lambda host: host.withdraw(1, 0),
], ids=["snapshot", "restore", "correction"])  # fmt: skip
def test_a_snapshot_that_did_not_fit_is_reported_until_one_is_written(tmp_path, write):
    host = Host.open(tmp_path, budgetron.Budgetron, snapshot_every=20)
    first, second = blocks(40)
    host.learn(*first)
    db = host._state.log.db
    (n_pages,) = db.one("PRAGMA page_count")
    db.one(f"PRAGMA max_page_count = {n_pages + 8}")  # enough for the examples, but not for another snapshot
    host.learn(*second)
    assert isinstance(host.failing, DiskRefused) and host.snapshot_record == 1
    db.one(f"PRAGMA max_page_count = {2**31}")
    write(host)
    assert host.failing is None and host.snapshot_record == host.position
    host.close()


def test_an_interrupt_between_log_and_model_is_detected(tmp_path, monkeypatch):
    host = learned_host(tmp_path, 40)
    block = blocks(20, seed=5)[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(host._state.hosted, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.learn(*block)
    monkeypatch.undo()
    with pytest.raises(StorageError, match="interrupted after the log was written"):
        host.learn(*block)
    (tmp_path / "copy").mkdir()
    host.backup(tmp_path / "copy" / "host.sqlite")  # everything is in the log
    host.close()
    for folder in (tmp_path, tmp_path / "copy"):
        with Host.open(folder) as host:
            assert same_model(host.model, learn_without_host(MODELS["random"], [*blocks(40), block])[0])


def test_an_interrupt_while_the_model_is_replaced_is_detected(tmp_path):
    host = learned_host(tmp_path, 40)
    other, _ = learn_without_host(MODELS["random"], blocks(20, seed=5))

    @contextmanager
    def interrupted():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        host.restore(content_of(other), interrupted())
    with pytest.raises(StorageError, match="interrupted after the log was written"):
        host.learn(*blocks(20)[0])
    host.close()
    with Host.open(tmp_path) as host:
        assert same_model(host.model, other)


@pytest.fixture
def without_logging():
    """Disable log messages, because they read the wall clock."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_learning_and_recovery_do_not_read_the_wall_clock(tmp_path, monkeypatch, without_logging):
    """A wall clock that runs backwards does no harm, because learning and recovery never read it.

    Log messages read it, so logging is disabled here.
    """
    import time

    def forbidden(*_):
        raise AssertionError("the wall clock was read")

    monkeypatch.setattr(time, "time", forbidden)
    monkeypatch.setattr(time, "time_ns", forbidden)
    host = learned_host(tmp_path, 60, snapshot_every=30)
    close_without_snapshot(host)
    with Host.open(tmp_path) as host:
        assert host.model.n_seen_ == 60
