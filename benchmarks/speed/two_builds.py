"""python benchmarks/speed/two_builds.py PYTHON PYTHON [--rounds 15]

Compare two builds of Budgetron, each installed for one of the Pythons: time of `learn_one`, in processes that take
turns. Prints the median of the ratios, second by first, and their quartiles. We used it to decide whether wheels
use the stable ABI of Python, which may cost at most 5 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

PROGRAM = """
import json, time, numpy as np
from budgetron import Budgetron, Forgetron
rng = np.random.default_rng(0)
X, y, tasks = rng.normal(size=(4000, 5)), rng.integers(2, size=4000).tolist(), rng.integers(40, size=4000).tolist()
found = {}
for model in (Forgetron(budget=10), Budgetron(budget="64 KiB")):
    model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
    times = []
    for start in range(0, 4000, 100):  # the fastest hundred, in time of the processor: others may run beside it
        begun = time.thread_time()
        for i in range(start, start + 100):
            model.learn_one(X[i], y[i], task=tasks[i])
        times.append(time.thread_time() - begun)
    found[type(model).__name__] = min(times) * 1e4
print(json.dumps(found))
"""


def micros(python: str) -> dict[str, float]:
    done = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs=2)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    pairs = []
    for turn in range(given.rounds):
        one, other = given.python if turn % 2 == 0 else given.python[::-1]
        found = {one: micros(one), other: micros(other)}
        pairs.append((found[given.python[0]], found[given.python[1]]))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name in pairs[0][0]:
        ratios = [second[name] / first[name] for first, second in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        usual = statistics.median(first[name] for first, _ in pairs)
        print(f"{name}: {usual:.1f} µs; second by first {middle:.3f} (quartiles {low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
