"""Kill a service at random moments under load, and compare the recovered model with the acknowledged examples.

Each sender sends one request at a time: an example with its own idempotency key, or the label of a remembered
prediction with the prediction's id. After a kill it repeats the request that was not answered, with the same key or id.
If the example was in the log already, the answer has the number of its first record. So when all senders have finished,
every example is acknowledged, and each acknowledgement has the number of its record.

A new model in this process then learns the examples in the order of these numbers. It must give the margins of the
service, example for example, and at the end the same model file, byte for byte.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from running import free_port, until

import budgetron
from budgetron import kernels
from budgetron.client import ServiceFailed, Unreachable
from budgetron.learners.lifecycle.saved import content_of

MODEL = "RandomBudgetPerceptron budget=40 kernel=gaussian:0.3"
SENDERS = 3


def new_model():
    return budgetron.RandomBudgetPerceptron(budget=40, kernel=kernels.Gaussian(gamma=0.3))


class LaunchedService:
    """Services of one directory and port, started one after the other, each in its own process."""

    def __init__(self, folder, *arguments):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._arguments = ["serve", *map(str, arguments), "--data", str(folder), "--port", str(port)]
        self._launcher = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("launcher.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.log, self.pid = [], 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._launcher.stderr:
            self.log.append(json.loads(line) if line.startswith("{") else {"text": line})

    def start(self):
        """Start a service and wait until it serves. Returns the number of examples that it replayed from the log."""
        self.log.clear()
        self._launcher.stdin.write(json.dumps(self._arguments) + "\n")
        self._launcher.stdin.flush()
        self.pid = int(self._launcher.stdout.readline())
        until(lambda: any(line.get("event") == "serving" for line in list(self.log)))
        return next(line["replayed"] for line in self.log if line.get("event") == "model")

    def end(self, sig):
        os.kill(self.pid, sig)
        until(self._has_ended)

    def _has_ended(self):
        try:
            os.kill(self.pid, 0)  # sends nothing; an error if the process has ended, since no zombie remains of it
        except ProcessLookupError:
            return True
        return False

    def close(self):
        self._launcher.stdin.close()
        self._launcher.wait(300)
        self._reader.join(60)
        self._launcher.stdout.close()
        self._launcher.stderr.close()


class Sender(threading.Thread):
    """Sends examples until it is stopped, and continues after every kill."""

    def __init__(self, number, url):
        super().__init__(daemon=True)
        self._rng, self._name = np.random.default_rng(number), number
        self._client = budgetron.Client(url, retries=0, timeout=60)
        self.acknowledged = []  # (position, features, label, task, margin)
        self.error = None
        self.finished = threading.Event()
        self.n_lost_answers = 0

    def run(self):
        try:
            turn = 0
            while not self.finished.is_set():
                turn += 1
                self._send_example(turn)
        except Exception as error:
            self.error = error

    def _send_example(self, turn):
        row = self._rng.normal(size=3).round(6).tolist()
        label, task = int(row[0] + 0.3 * self._rng.normal() > 0), f"task {self._rng.integers(5)}"
        if turn % 3:
            key = f"{self._name}-{turn}"
            answer = self._until_answered(lambda client: client.learn(row, label, task, key=key))
            self.acknowledged.append((answer.position, row, label, task, answer.margins[0]))
            return
        prediction_id = self._until_answered(lambda client: client.predict(row, task, remember=True)).id
        answer = self._until_answered(lambda client: client.feedback(prediction_id, label))
        self.acknowledged.append((answer["position"], row, label, task, answer["margin"]))

    def _until_answered(self, request):
        for _ in range(20_000):
            try:
                return request(self._client)
            except Unreachable:
                self.n_lost_answers += 1
            except ServiceFailed as failed:  # stopping, or still recovering
                if failed.status != 503:
                    raise
            time.sleep(0.005)
        raise AssertionError("no service for a long time")


def run(folder, kills, seed=0, between=(0.02, 0.5)):
    """Kill the service `kills` times, then compare the models. Returns statistics of the run.

    Every second process has acknowledged an example before it is killed, however slow the machine is. Each other
    process is killed after a random time, perhaps before it has acknowledged anything.
    """
    rng = random.Random(seed)
    options = ("--snapshot-every", 25)  # so frequent that some kills interrupt a snapshot or the trimming of the log
    service = LaunchedService(folder, MODEL, *options)
    service.start()
    with budgetron.Client(service.url) as first:
        first.learn_many([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [1, 0], ["task 0", "task 1"])
    senders = [Sender(number, service.url) for number in range(SENDERS)]
    for sender in senders:
        sender.start()

    def n_acknowledged():
        return sum(len(sender.acknowledged) for sender in senders)

    replayed = 0
    for number in range(kills):
        if number % 2:
            before = n_acknowledged()
            until(lambda before=before: any(sender.error for sender in senders) or n_acknowledged() > before)
        time.sleep(rng.uniform(*between))
        service.end(signal.SIGKILL)
        replayed += service.start()
    until(lambda: all(sender.error or len(sender.acknowledged) > 20 for sender in senders))
    for sender in senders:
        sender.finished.set()
    for sender in senders:
        sender.join(300)
        sender._client.close()
        assert sender.error is None and not sender.is_alive(), sender.error
    with budgetron.Client(service.url) as last:
        last.snapshot(folder / "served.budgetron")
    service.end(signal.SIGTERM)
    service.close()

    acknowledged = sorted((entry for sender in senders for entry in sender.acknowledged), key=lambda entry: entry[0])
    positions = [entry[0] for entry in acknowledged]
    assert len(set(positions)) == len(positions), "two acknowledgements of one record"
    model = new_model()
    model.partial_fit([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [1, 0], tasks=["task 0", "task 1"])
    for _, row, label, task, margin in acknowledged:
        assert model.predict_then_learn([row], [label], tasks=[task])[0] == margin
    assert model.n_seen_ == len(acknowledged) + 2
    assert content_of(model) == (folder / "served.budgetron").read_bytes()
    return {"kills": kills, "acknowledged": len(acknowledged), "lost answers": sum(s.n_lost_answers for s in senders),
            "replayed": replayed}  # fmt: skip
