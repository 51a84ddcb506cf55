"""Compare the time of `learn_one` in two builds of Budgetron.

    python benchmarks/speed/two_builds.py PYTHON PYTHON [--rounds 15]

Each build is installed for one of the two Pythons, whose processes run in turns. The script prints the median and the
quartiles of the ratios: time of the second build divided by time of the first. We used it to decide whether wheels use
the stable ABI of Python, which may cost at most 5 %.
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
micros = {}
for model in (Forgetron(budget=10), Budgetron(budget="64 KiB")):
    model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
    times = []
    # The minimum over groups of 100 calls, in processor time, because other programs may run at the same time.
    for start in range(0, 4000, 100):
        begin = time.thread_time()
        for i in range(start, start + 100):
            model.learn_one(X[i], y[i], task=tasks[i])
        times.append(time.thread_time() - begin)
    micros[type(model).__name__] = min(times) * 1e4
print(json.dumps(micros))
"""


def measured(python: str) -> dict[str, float]:
    """Run PROGRAM in a Python; return the microseconds per call, by learner."""
    done = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, check=True)
    micros: dict[str, float] = json.loads(done.stdout)
    return micros


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs=2)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    pairs = []
    for turn in range(arguments.rounds):
        # The order alternates, so that neither build always runs on a warmer processor.
        order = arguments.python if turn % 2 == 0 else arguments.python[::-1]
        micros = {python: measured(python) for python in order}
        pairs.append((micros[arguments.python[0]], micros[arguments.python[1]]))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name in pairs[0][0]:
        ratios = [second[name] / first[name] for first, second in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        time_of_first = statistics.median(first[name] for first, _ in pairs)
        print(f"{name}: {time_of_first:.1f} µs; second / first {middle:.3f} (quartiles {low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
