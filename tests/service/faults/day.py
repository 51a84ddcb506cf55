"""A simulated day of a service under load: faults of every kind in `FAULTS`, one after the other, at random moments.

    python -m pytest tests/service/faults/test_day.py --long

The test checks that every acknowledged example was learned exactly once. For that, a new model in this process learns
the acknowledged examples in the order of their record numbers. Where the operator uploaded a model file, that file
replaces the model. The model must give the margins that the service gave, example for example, and at the end the same
model file, byte for byte. Streams go to a second model, which must have seen every line once. Every answer of /readyz
must agree with the state of the service; see `Probe`.
"""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import httpx
from day_clients import Probe, Sender, SlowStream, send_invalid_request
from kills import MODEL, LaunchedService, new_model
from running import until

from budgetron.client import Client
from budgetron.durable import verify
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.learners.lifecycle.saved import content_of
from budgetron.service.http import api_keys

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
ALMOST_NOTHING = (4096, resource.RLIM_INFINITY)  # bytes that a file may have: less than any log
FAULTS = {"kill": 7, "stop": 4, "full disk": 4, "replace model": 2, "restore backup": 2, "back up": 3, "cut backup": 1,
          "change keys": 1, "invalid requests": 4, "slow stream": 2}  # relative frequencies  # fmt: skip


class History:
    """The states of the service over time: "ready", "full" (its disk is full), or "changing" (ready or not)."""

    def __init__(self):
        self._changes = [(0.0, "changing")]

    def record(self, state):
        self._changes.append((time.monotonic(), state))

    def between(self, begin, end):
        changes = list(self._changes)
        ends = [at for at, _ in changes[1:]] + [float("inf")]
        return {state for (at, state), until_ in zip(changes, ends, strict=True) if at <= end and until_ >= begin}


class Day:
    def __init__(self, folder, seed):
        self.folder, self.rng = folder, random.Random(seed)
        self.key_file = folder / "keys"
        self.admin = api_keys.add(self.key_file, "admin", "admin")
        self.token, self._n_keys = api_keys.add(self.key_file, "sender-0", "learn"), 1
        self.history, self.key_changes = History(), 0
        self.paused, self.finished = threading.Event(), threading.Event()  # tell the senders to pause or to end
        self.service = LaunchedService(folder / "data", MODEL, f"streams={MODEL}", "--keys", self.key_file,
                                "--snapshot-every", 25)  # fmt: skip
        self.url = self.service.url
        self.uploads = []  # (position, model file) of models that the operator uploaded
        self.backup = None  # the latest backup: its file and position
        self.happened = Counter()
        self.streams = []
        self.senders = [Sender(self, number) for number in range(3)]
        self.probe = Probe(self, 99)

    # ---- the day

    def run(self, faults):
        self._start()
        first = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
        with self._admin() as client:
            client.learn_many(first, [1, 0], ["task 0", "task 1"])
        with Client(self.url, self.token, "streams") as client:
            client.learn_many(first, ["a", "b"], ["t0", "t1"])
        for thread in (*self.senders, self.probe):
            thread.start()
        for number, fault in enumerate(self._plan(faults)):
            if number % 2:  # before every second fault something is learned, however slow the machine is
                before = self._n_items()
                until(lambda before=before: self._errors() or self._n_items() > before)
            time.sleep(self.rng.uniform(0.02, 0.4))
            getattr(self, "_" + fault.replace(" ", "_"))()
            self.happened[fault] += 1
            self._check_threads()
        self._finish()
        return self._compare(first)

    def _plan(self, n):
        """The faults in random order: every kind at least once, and more with the frequencies of `FAULTS`."""
        kinds, weights = list(FAULTS), list(FAULTS.values())
        plan = kinds + self.rng.choices(kinds, weights, k=max(0, n - len(kinds)))
        self.rng.shuffle(plan)
        return plan

    def _finish(self):
        until(lambda: self._errors() or all(len(sender.items) > 20 for sender in self.senders))
        self.finished.set()
        for thread in (*self.senders, self.probe, *self.streams):
            thread.join(300)
            assert not thread.is_alive(), thread
        self._check_threads()

    def _n_items(self):
        return sum(len(sender.items) for sender in self.senders)

    def _check_threads(self):
        for error in self._errors():
            raise error

    def _errors(self):
        return [thread.error for thread in (*self.senders, self.probe, *self.streams) if thread.error is not None]

    def _compare(self, first):
        with self._admin() as client:
            client.snapshot(self.folder / "served.budgetron")
        with Client(self.url, self.admin, "streams") as client:
            assert client.model()["seen"] == 2 + sum(len(stream.lines) for stream in self.streams)
        self.service.end(signal.SIGTERM)
        self.service.close()
        items = [item for sender in (*self.senders, self.probe) for item in sender.items]
        assert all(item.position is not None for item in items)
        events = sorted([(item.position, item) for item in items] + self.uploads, key=lambda event: event[0])
        positions = [position for position, _ in events]
        assert len(set(positions)) == len(positions), "two acknowledgements of one record"
        model = new_model()
        model.partial_fit(first, [1, 0], tasks=["task 0", "task 1"])
        for _, event in events:
            if isinstance(event, bytes):
                model = hosted_model_from(event).model
            else:
                margin = model.predict_then_learn([event.row], [event.label], tasks=[event.task])[0]
                assert margin == event.margin, event
        assert content_of(model) == (self.folder / "served.budgetron").read_bytes()
        assert verify(self.folder / "data" / "default").unusable == ""
        return {
            "faults": dict(self.happened),
            "acknowledged_examples": len(items),
            "stream_lines": sum(len(stream.lines) for stream in self.streams),
            "readyz_answers": self.probe.answers,
            "readyz_answers_checked_by_label": self.probe.n_checked_by_label,
        }

    # ---- faults

    def _start(self):
        self.history.record("changing")
        self.service.start()
        self.history.record("ready")
        left = [path.name for path in (self.folder / "data").rglob(".*")]
        assert not left, f"the service did not clean up {left}"

    def _end(self, sig):
        self.history.record("changing")
        self.service.end(sig)

    def _kill(self):
        self._end(signal.SIGKILL)
        self._start()

    def _stop(self):
        self._end(signal.SIGTERM)
        self._start()

    def _full_disk(self):
        self.history.record("changing")
        resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE, ALMOST_NOTHING)
        self.history.record("full")
        if self.rng.random() < 0.7:
            before = self.probe.n_checked_by_label
            until(lambda: self._errors() or self.probe.n_checked_by_label > before)
        if self.rng.random() < 0.3:
            self._kill()  # the next process has space again
            return
        self.history.record("changing")
        resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        self.history.record("ready")

    def _replace_model(self):
        """Download the model, let the service learn more, and upload the file, which undoes what was learned since."""
        with self._admin() as client, self._senders_paused():
            client.snapshot(self.folder / "model")
        time.sleep(0.05)
        with self._admin() as client, self._senders_paused():
            position = client.restore(self.folder / "model")
            self.uploads.append((position, (self.folder / "model").read_bytes()))

    def _back_up(self):
        path = self.folder / "backup"
        with self._admin() as client:
            client.backup(path)
        self.backup = path, verify(path).position

    def _cut_backup(self):
        """Begin to download a backup, and then disconnect or kill the service."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        with httpx.stream("GET", self.url + "/v1/backup", headers=headers, timeout=60) as answer:
            next(answer.iter_bytes(100))
            if self.rng.random() < 0.5:
                self._kill()

    def _restore_backup(self):
        """Restore the last backup, as an operator does. The senders then repeat the examples that the backup lacks."""
        if self.backup is None:
            self._back_up()
        path, position = self.backup
        with self._senders_paused():
            self._end(self.rng.choice([signal.SIGTERM, signal.SIGKILL]))
            directory = self.folder / "data" / "default"
            command = [sys.executable, "-m", "budgetron", "restore", path, directory]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            for file in directory.glob("replaced-*"):
                file.unlink()
            self.uploads = [upload for upload in self.uploads if upload[0] <= position]
            for sender in (*self.senders, self.probe):
                sender.send_again(position)
            self._start()

    def _change_keys(self):
        """Give the senders a new API key, then revoke the old one, which must stop working."""
        self.key_changes += 1  # odd while the keys change
        old, name = self.token, f"sender-{self._n_keys}"
        self._n_keys += 1
        new = api_keys.add(self.key_file, name, "learn")
        until(lambda: self._status(new) == 200)
        self.token = new
        lines = self.key_file.read_text().splitlines(keepends=True)
        self.key_file.write_text("".join(line for line in lines if line.split()[0] in ("admin", name)))
        until(lambda: self._status(old) == 401)
        assert self._status(new) == 200
        self.key_changes += 1

    def _status(self, token):
        return httpx.get(self.url + "/v1/model", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code

    def _invalid_requests(self):
        for _ in range(10):
            send_invalid_request(self, self.rng)

    def _slow_stream(self):
        stream = SlowStream(self, len(self.streams))
        self.streams.append(stream)
        stream.start()

    # ---- helpers

    def _admin(self):
        return Client(self.url, self.admin, timeout=60)

    def _senders_paused(self):
        return _SendersPaused(self)


class _SendersPaused:
    """A context in which the senders and the probe send nothing, and none of their requests is in progress."""

    def __init__(self, day):
        self._day = day

    def __enter__(self):
        threads = (*self._day.senders, self._day.probe)
        self._day.paused.set()
        for thread in threads:  # `is_paused` may still be set from the pause before; the thread sets it again
            thread.is_paused.clear()
        until(lambda: self._day._errors() or all(thread.is_paused.is_set() for thread in threads))

    def __exit__(self, *_):
        self._day.paused.clear()


def run(folder, faults, seed):
    """Run a day with this number of faults and compare the models. Returns counts of faults, examples and answers."""
    return Day(folder, seed).run(faults)
