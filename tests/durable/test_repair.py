"""A host detects damage that SQLite does not detect. `repair` keeps all records before the damage."""

from __future__ import annotations

import random
import shutil
import sqlite3

import numpy as np
import pytest
from host_streams import MODELS, blocks, close_without_snapshot, learn_without_host, same_model, stream

from budgetron.durable import AlreadyOwned, DamagedLog, Host, Request, repair, restore, verify
from budgetron.durable.replication.fencing import OWNER_FILE, directory_token
from budgetron.errors import InputError

MODEL, BLOCKS = MODELS["random"], blocks(300)  # 15 blocks of 20 examples each


def learned_host(folder, n=100, **options):
    """A host that has learned the first n examples, each block under its own key."""
    host = Host.open(folder, MODEL, **options)
    for number, block in enumerate(BLOCKS[: n // 20], 1):
        host.learn(*block, key=f"key {number}")
    return host


def change(folder, *statements):
    """Run SQL statements on the database of a closed host, as damage."""
    db = sqlite3.connect(folder / "host.sqlite")
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def is_repeated(host, number):
    """Send a block again with its key. Returns whether the key was recognised; otherwise the host learns the block."""
    return host.learn(*BLOCKS[number - 1], key=f"key {number}").repeated


def names(folder):
    """The files of a directory, without the temporary files of SQLite."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))


# ---- detection


@pytest.mark.parametrize(("statement", "words"), [
    ("DELETE FROM log WHERE number = 3", "record 3 is missing"),
    ("DELETE FROM log WHERE number > 3", "it ends at record 3, but record 5 was written"),
    ("UPDATE log SET block = NULL WHERE number = 3", "record 3 does not match its checksum"),
    ("DELETE FROM snapshot", "no snapshot is intact .snapshot 1: it is missing"),
    ("UPDATE answer SET key = 'KEY 2' WHERE key = 'key 2'", "the idempotency key of record 2 does not match"),
    ("UPDATE answer SET digest = x'00' WHERE key = 'key 2'", "the idempotency key of record 2 does not match"),
    ("UPDATE answer SET margins = NULL WHERE key = 'key 2'", "the idempotency key of record 2 does not match"),
    ("UPDATE owner SET position = 4", "the table of its owner does not match its checksum"),
    ("DELETE FROM owner", "the table of its owner does not match its checksum"),
    ("DROP TABLE stream_block", "no such table: stream_block"),
])  # fmt: skip
def test_changes_on_disk_are_detected_and_the_message_names_the_commands(tmp_path, statement, words):
    close_without_snapshot(learned_host(tmp_path))
    change(tmp_path, statement)
    for read in (Host.open, verify):
        with pytest.raises(DamagedLog, match=words) as damaged:
            read(tmp_path)
        assert f"budgetron restore BACKUP {tmp_path}." in str(damaged.value)
        assert f"budgetron repair {tmp_path} --accept-loss" in str(damaged.value)


def test_a_deleted_database_is_not_replaced_by_a_new_one(tmp_path):
    learned_host(tmp_path).close()
    (tmp_path / "host.sqlite").unlink()
    for read in (verify, lambda folder: Host.open(folder, MODEL)):
        with pytest.raises(DamagedLog, match="it is missing"):
            read(tmp_path)
    assert not (tmp_path / "host.sqlite").exists()


def test_a_missing_snapshot_is_reported_and_the_snapshot_before_it_used(tmp_path, caplog):
    host = learned_host(tmp_path, 300, snapshot_every=100)
    before, newest, older = host.content(), *host._state.snapshots.numbers
    close_without_snapshot(host)
    change(tmp_path, f"DELETE FROM snapshot WHERE number = {newest}")
    assert f"snapshot {newest}: it is missing" in verify(tmp_path).unusable
    with Host.open(tmp_path) as host:
        assert host.content() == before and host.recovery.snapshot == older
    assert f"snapshot {newest}: it is missing. Recovery starts from snapshot {older}" in caplog.text


def test_rejected_records_leave_no_gap(tmp_path):
    host = learned_host(tmp_path)
    for _ in range(3):
        with pytest.raises(InputError):
            host.learn([[np.nan] * 5], [1], ["ann"])
        host.learn(*blocks(20, seed=4)[0])
    before = host.content()
    close_without_snapshot(host)
    with Host.open(tmp_path) as host:
        assert host.content() == before
        host.learn(*blocks(20, seed=5)[0])
    assert verify(tmp_path).examples == 180


def test_rejected_records_do_not_fill_the_disk(tmp_path):
    with Host.open(tmp_path, MODEL, snapshot_every=50) as host:
        for has_snapshot in (False, True):
            for _ in range(300):
                with pytest.raises(InputError):
                    host.learn([[np.nan] * 5], [1], ["ann"])
            (n,) = host._state.log.db.one("SELECT count(*) FROM log")
            # The log has the records after the older of two snapshots: 50 up to the newer one, and fewer than 50 later.
            # Before the first snapshot, each commit deletes the rejected records before it.
            assert n < 2 * 50 if has_snapshot else n == 1
            host.learn(*BLOCKS[0])


@pytest.mark.parametrize("n", [80, pytest.param(1000, marks=pytest.mark.long)])
def test_flipped_bits_are_harmless_or_detected(tmp_path, n):
    """Each flipped bit is harmless or detected.

    Harmless means that the model is the same and that every key gets its first answer. If a bit is detected, `repair`
    repairs the file, or says that only a backup helps.
    """
    X, y, tasks = stream(200)
    requests = [Request(X[i : i + 1], y[i : i + 1], tasks[i : i + 1], f"key {i}", [0, 1]) for i in range(200)]
    with Host.open(tmp_path / "host", MODEL) as host:
        first = host.learn_many(requests)
        host.learn(*BLOCKS[0])
        expected = host.content()
    content, rng = (tmp_path / "host" / "host.sqlite").read_bytes(), random.Random(3)
    harmless = repaired = 0
    for number in range(n):
        bit = rng.randrange(8 * len(content))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "host", folder)
        (folder / "host.sqlite").write_bytes(changed)
        try:
            with Host.open(folder) as host:
                again = host.learn_many(requests)
                assert all(answer.repeated for answer in again), bit
                margins = [(one.margins, two.margins) for one, two in zip(first, again, strict=True)]
                assert all(np.array_equal(*pair) for pair in margins)
                assert host.content() == expected, bit
            harmless += 1
        except DamagedLog:
            try:
                repair(folder)
            except DamagedLog as error:
                assert "Only a backup helps" in str(error)
            else:
                # Each of the two commits is followed by a snapshot, so a flipped bit can cost only the second commit.
                assert verify(folder).examples in (200, 220)
                repaired += 1
        shutil.rmtree(folder)
    assert harmless > n // 4 and repaired > n // 50  # some bits of each kind were flipped


# ---- repair


def test_repair_keeps_the_records_before_the_damage_and_the_damaged_file(tmp_path):
    close_without_snapshot(learned_host(tmp_path))
    change(tmp_path, "DELETE FROM log WHERE number = 4")
    damaged = (tmp_path / "host.sqlite").read_bytes()
    done = repair(tmp_path)
    assert (done.last_good, done.last_known, done.position, done.examples) == (3, 5, 6, 60)
    assert done.old_database.read_bytes() == damaged and "record 4 is missing" in done.damage
    with Host.open(tmp_path) as host:
        assert same_model(host.model, learn_without_host(MODEL, BLOCKS[:3])[0])
        assert all(is_repeated(host, number) for number in (1, 2, 3))
        assert not is_repeated(host, 4)  # lost examples may be sent again, and are learned
    assert repair(tmp_path) is None
    assert names(tmp_path) == ["acknowledged", "damaged-1.sqlite", "host.sqlite", "lock"]


def test_repair_of_a_changed_key_loses_that_key_only(tmp_path):
    close_without_snapshot(learned_host(tmp_path))
    change(tmp_path, "UPDATE answer SET key = 'KEY 2' WHERE key = 'key 2'")
    assert repair(tmp_path).last_good == 5
    with Host.open(tmp_path) as host:
        assert same_model(host.model, learn_without_host(MODEL, BLOCKS[:5])[0])
        assert [is_repeated(host, number) for number in (1, 2, 3)] == [True, False, True]


def test_repair_of_a_damaged_snapshot_loses_nothing(tmp_path):
    host = learned_host(tmp_path, 300, snapshot_every=100)
    before, newest = host.content(), host._state.snapshots.numbers[0]
    close_without_snapshot(host)
    change(tmp_path, f"UPDATE snapshot SET content = x'00' WHERE number = {newest}")
    assert repair(tmp_path).last_good == 15
    with Host.open(tmp_path) as host:
        assert host.content() == before and not host.recovery.unusable


@pytest.mark.parametrize("statement", ["DELETE FROM snapshot", "DROP TABLE snapshot", None])
def test_repair_says_so_when_only_a_backup_helps(tmp_path, statement):
    learned_host(tmp_path).close()
    if statement is None:
        (tmp_path / "host.sqlite").write_bytes(b"rubbish" * 1000)
    else:
        change(tmp_path, statement)
    before = (tmp_path / "host.sqlite").read_bytes()
    with pytest.raises(DamagedLog, match=f"Only a backup helps: budgetron restore BACKUP {tmp_path}"):
        repair(tmp_path)
    assert (tmp_path / "host.sqlite").read_bytes() == before


def test_a_directory_in_use_is_neither_repaired_nor_restored(tmp_path):
    with learned_host(tmp_path / "host") as host:
        host.backup(tmp_path / "backup")
        assert verify(tmp_path / "host").examples == 100
        for change_it in (lambda: repair(tmp_path / "host"), lambda: restore(tmp_path / "backup", tmp_path / "host")):
            with pytest.raises(AlreadyOwned):
                change_it()


# ---- restore


@pytest.mark.parametrize("damage", ["none", "rubbish", "missing", "log", "no directory"])
def test_a_backup_is_restored_over_anything(tmp_path, damage):
    host = learned_host(tmp_path / "host", 60)
    host.backup(tmp_path / "backup")
    before = host.content()
    for block in BLOCKS[3:5]:
        host.learn(*block)
    close_without_snapshot(host)
    file = tmp_path / "host" / "host.sqlite"
    if damage == "rubbish":
        file.write_bytes(b"rubbish" * 1000)
    elif damage == "missing":
        file.unlink()
    elif damage == "log":
        change(tmp_path / "host", "DELETE FROM log WHERE number = 5")
    elif damage == "no directory":
        shutil.rmtree(tmp_path / "host")
    done = restore(tmp_path / "backup", tmp_path / "host")
    assert (done.last_good, done.examples) == (3, 60)
    assert done.position == done.last_known + 1 and done.last_known == (3 if damage == "no directory" else 5)
    assert (done.old_database is None) == (damage in ("missing", "no directory"))
    with Host.open(tmp_path / "host") as host:
        assert host.content() == before and host.position == done.position
        assert is_repeated(host, 3) and not is_repeated(host, 4)


def test_a_backup_that_was_copied_over_the_file_is_detected_and_the_message_names_the_command(tmp_path):
    host = learned_host(tmp_path / "host", 60)
    host.backup(tmp_path / "backup")
    host.learn(*BLOCKS[3])
    host.close()
    shutil.copy(tmp_path / "backup", tmp_path / "host" / "host.sqlite")
    with pytest.raises(DamagedLog, match=r"record 4 was acknowledged.*budgetron restore BACKUP"):
        Host.open(tmp_path / "host")
    assert restore(tmp_path / "backup", tmp_path / "host").position == 5
    assert restore(tmp_path / "backup", tmp_path / "host").position == 6  # a number is never used twice
    with Host.open(tmp_path / "host") as host:
        assert host.model.n_seen_ == 60


def test_a_backup_of_an_empty_model_can_be_restored(tmp_path):
    with Host.open(tmp_path / "host", MODEL) as host:
        host.backup(tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "other")
    assert verify(tmp_path / "other").examples == 0
    with Host.open(tmp_path / "other", MODEL) as host:
        host.learn(*BLOCKS[0])


@pytest.mark.parametrize("kind", ["empty", "rubbish", "model file", "other database"])
def test_files_that_are_not_backups_are_rejected_and_change_nothing(tmp_path, kind):
    host = learned_host(tmp_path / "host", 60)
    if kind == "other database":
        db = sqlite3.connect(tmp_path / "file")
        db.execute("CREATE TABLE owner (one)")
        db.close()
    else:
        content = {"empty": b"", "rubbish": b"rubbish" * 1000, "model file": host.content()}
        (tmp_path / "file").write_bytes(content[kind])
    host.close()
    before = (tmp_path / "host" / "host.sqlite").read_bytes()
    expected = "must be an intact file.*Choose another backup"
    with pytest.raises(DamagedLog, match=f"restore: SOURCE {expected}"):
        restore(tmp_path / "file", tmp_path / "host")
    with pytest.raises(DamagedLog, match=f"verify: PATH {expected}"):
        verify(tmp_path / "file")
    assert (tmp_path / "host" / "host.sqlite").read_bytes() == before
    assert not list((tmp_path / "host").glob(".*"))


# ---- permissions, and files that a killed process leaves


def test_other_users_may_not_read(tmp_path):
    host = learned_host(tmp_path / "above" / "host", 60)
    host.backup(tmp_path / "backup")
    token = directory_token(tmp_path / "above" / "host")
    assert directory_token(tmp_path / "above" / "host") == token
    for path in (tmp_path / "above", tmp_path / "above" / "host"):
        assert path.stat().st_mode & 0o777 == 0o700
    files = [tmp_path / "backup", *(tmp_path / "above" / "host").iterdir()]
    assert {"host.sqlite", "host.sqlite-wal", "lock", "acknowledged", OWNER_FILE} <= {path.name for path in files}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    host.close()


def test_leftovers_of_a_killed_process_are_deleted_at_the_next_start(tmp_path):
    learned_host(tmp_path, 20).close()
    for name in (".budgetron-0a", "..budgetron-0a.part", "..budgetron-0a.part-wal", ".budgetron-0a.tmp", ".backup-0a"):
        (tmp_path / name).write_bytes(b"examples of a forgotten task")
    (tmp_path / ".budgetron-0b").mkdir()
    (tmp_path / ".budgetron-0b" / "host.sqlite").write_bytes(b"examples")
    Host.open(tmp_path).close()
    assert names(tmp_path) == ["acknowledged", "host.sqlite", "lock"]


# Turn `host.sqlite` into a file of format 2, which had fewer columns and deleted rejected records.
FORMAT_2 = ["ALTER TABLE owner DROP COLUMN snapshot", "ALTER TABLE owner DROP COLUMN previous",
            "ALTER TABLE owner DROP COLUMN crc", "ALTER TABLE answer DROP COLUMN crc",
            "ALTER TABLE stream_block DROP COLUMN crc", "ALTER TABLE stream_forgotten DROP COLUMN crc",
            "DELETE FROM log WHERE block IS NULL", "PRAGMA user_version=2"]  # fmt: skip


def test_a_directory_of_format_2_opens_and_is_then_checked(tmp_path):
    host = learned_host(tmp_path, 100, snapshot_every=50)
    with pytest.raises(InputError):
        host.learn([[np.nan] * 5], [1], ["ann"])
    host.learn(*blocks(20, seed=4)[0])
    before = host.content()
    close_without_snapshot(host)
    change(tmp_path, *FORMAT_2)
    with Host.open(tmp_path) as host:
        assert host.content() == before
        assert all(is_repeated(host, number) for number in range(1, 6))
        host.learn(*blocks(20, seed=5)[0])
    change(tmp_path, "UPDATE answer SET key = 'KEY 2' WHERE key = 'key 2'")
    with pytest.raises(DamagedLog):
        Host.open(tmp_path)


def test_a_backup_that_does_not_exist_is_rejected(tmp_path):
    source = tmp_path / ("no-such-backup" * 10)  # a long path is not shortened
    with pytest.raises(InputError, match="restore: SOURCE must be a backup, a copy or the directory") as refused:
        restore(source, tmp_path / "model")
    assert f"got '{source}'" in str(refused.value)
    assert not (tmp_path / "model").exists()
