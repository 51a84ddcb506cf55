"""Requests, and hosts that have learned them, for the tests of corrections."""

from __future__ import annotations

import numpy as np

from budgetron import Budgetron, Forgetron
from budgetron.durable import Host

MODELS = {"budgetron": lambda: Budgetron("64 KiB", kernel=None), "forgetron": lambda: Forgetron(20)}


def requests(n=12, size=5, seed=0):
    """Yield n requests (X, y, tasks) of `size` examples each."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X, tasks = rng.normal(size=(size, 3)), rng.integers(3, size=size).tolist()
        yield X, np.where(X[:, 0] + 0.3 * rng.normal(size=size) > 0, "yes", "no").tolist(), tasks


def model_of_requests(make, sent):
    """A model without a host that learned these requests."""
    model = make()
    for X, y, tasks in sent:
        if len(y):
            model.partial_fit(X, y, tasks=tasks, classes=["no", "yes"])
    return model


def probe_margins(model):
    """The margins of a model for fixed rows."""
    return model.decision_function(np.random.default_rng(9).normal(size=(20, 3)), tasks=[0, 1] * 10)


def learned_host(folder, make=MODELS["budgetron"], **options):
    """A host that has learned 12 requests, and the list of these requests: [X, y, tasks] each.

    Record i of the log is item i - 1 of the list.
    """
    host = Host.open(folder, make, **options)
    sent = [list(request) for request in requests()]
    for X, y, tasks in sent:
        host.learn(X, y, tasks, classes=["no", "yes"])
    return host, sent


def other_label(label):
    return "no" if label == "yes" else "yes"
