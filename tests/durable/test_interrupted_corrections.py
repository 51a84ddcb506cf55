"""A failed write or a kill leaves no half correction, and the list of corrections survives restore and repair."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from child_signals import default_signals
from corrected_hosts import MODELS, learned_host, model_of_requests, other_label, probe_margins

from budgetron.durable import DamagedLog, DiskRefused, Host, NotInLog, repair, restore
from budgetron.durable.recovery import load_copy


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    host, sent = learned_host(tmp_path)
    before, label = host.content(), other_label(sent[5][1][0])
    put_corrected = host._state.snapshots.put_corrected

    def failing(content, base):
        put_corrected(content, base)
        raise DiskRefused("full")

    monkeypatch.setattr(host._state.snapshots, "put_corrected", failing)
    with pytest.raises(DiskRefused):
        host.correct(6, label, 0)
    monkeypatch.undo()
    assert host.content() == before and host.corrections() == []
    host.correct(6, label, 0)
    host.close()


def test_a_correction_whose_line_cannot_be_read_back_changes_nothing(tmp_path):
    host, sent = learned_host(tmp_path)
    before, label = host.content(), other_label(sent[5][1][0])
    db = host._state.log.db
    db.execute(
        "CREATE TRIGGER damage AFTER INSERT ON correction BEGIN "
        "UPDATE correction SET who = CAST(x'FF' AS TEXT) WHERE number = new.number; END"
    )
    with pytest.raises(DamagedLog):
        host.correct(6, label, 0)
    assert host.content() == before == load_copy(tmp_path).content()
    db.execute("DROP TRIGGER damage")
    assert host.correct(6, label, 0).correction.new == label
    host.close()


KILLED = """
import sys, itertools
sys.path[:0] = {path!r}
from budgetron.durable import Host
other_label = {{"no": "yes", "yes": "no"}}.get
host = Host.open({folder!r}, snapshot_every=23)
print("ready", flush=True)
labels = {labels!r}
for turn in itertools.count():
    row = turn % 5
    labels[row] = other_label(labels[row])
    host.correct(12, labels[row], row)
    print(row, labels[row], flush=True)
"""


def test_after_a_kill_a_correction_is_complete_or_absent(tmp_path):
    host, sent = learned_host(tmp_path, snapshot_every=23)
    host.close()
    rng = random.Random()  # not seeded: every run kills the child at another moment
    labels = sent[11][1]
    script = textwrap.dedent(KILLED).format(path=sys.path, folder=str(tmp_path), labels=list(labels))
    with default_signals():
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    for _ in range(rng.randint(3, 9)):
        row, label = child.stdout.readline().split()
        labels[int(row)] = label
    child.send_signal(signal.SIGKILL)
    for line in child.stdout.read().splitlines():  # acknowledged before the kill
        row, label = line.split()
        labels[int(row)] = label
    child.wait()
    child.stdout.close()
    with Host.open(tmp_path) as again:
        latest = {}
        for line in again.corrections(10_000):
            latest.setdefault(line.row, line.new)
        wrong = [row for row, label in latest.items() if labels[row] != label]
        assert len(wrong) <= 1  # the last correction may be on disk without its acknowledgement
        for row in wrong:
            labels[row] = latest[row]
        assert np.array_equal(probe_margins(again.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))


def test_the_list_of_corrections_survives_backup_restore_and_repair(tmp_path):
    host, sent = learned_host(tmp_path / "one")
    host.correct(12, other_label(sent[11][1][0]), 0, who="é", reason="wrong")
    host.backup(tmp_path / "backup")
    host.close()
    restore(tmp_path / "backup", tmp_path / "two")
    with Host.open(tmp_path / "two") as again:
        assert [line.who for line in again.corrections()] == ["é"]
        with pytest.raises(NotInLog):
            again.correct(12, sent[11][1][0], 0)
    with sqlite3.connect(tmp_path / "one" / "host.sqlite") as db:
        db.execute("UPDATE snapshot SET content = x'00' WHERE number = (SELECT max(number) FROM snapshot)")
    assert repair(tmp_path / "one") is not None
    with Host.open(tmp_path / "one") as again:
        assert [line.reason for line in again.corrections()] == ["wrong"]
