"""How long a correction takes: all examples since the last snapshot before the corrected example are learned again.

    python benchmarks/service/corrections.py [EXAMPLES ...]

EXAMPLES are the numbers of examples to learn again.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

from budgetron import Budgetron
from budgetron.durable import Host

D, BLOCK = 28, 500


def measure(n: int) -> None:
    """Print the seconds of a correction that learns n examples again."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, Host.open(folder, Budgetron, snapshot_every=10 * n) as host:
        for start in range(0, n + BLOCK, BLOCK):
            X, tasks = rng.normal(size=(BLOCK, D)), rng.integers(100, size=BLOCK)
            learned = host.learn(X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int), tasks.tolist(), classes=[0, 1])
            if start == 0:
                host.snapshot()
            elif start == BLOCK:
                first, label = learned.position, int(X[0, 0] + X[0, 1] * X[0, 2] > 0)
        done = host.correct(first, 1 - label, 0)
        print(f"{done.replayed_examples:>9,} examples learned again in {done.seconds:6.2f} s")


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ("10000", "50000")):
        measure(count)
