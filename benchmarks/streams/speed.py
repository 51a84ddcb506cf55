"""A CSV file of 10⁶ rows × 30 columns, end to end: read, scaled, predicted and learned, in one process and one thread.

    python benchmarks/streams/speed.py [--rows N]

Prints rows a second by the clock and by processor time, for reading alone and with learning, and the memory the process
ever held, after a tenth of the rows and after all.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from budgetron import RandomBudgetPerceptron, streams

COLUMNS = 28  # and a task and a label


def write(path: Path, rows: int) -> None:
    """The file: 28 numbers of four decimals, one of 1,000 tasks, and a label."""
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="ascii") as file:
        file.write(",".join([*(f"x{i}" for i in range(COLUMNS)), "task", "label"]) + "\n")
        for start in range(0, rows, 10_000):
            n = min(10_000, rows - start)
            X = rng.normal(size=(n, COLUMNS))
            y = X[:, 0] + X[:, 1] * X[:, 2] > 0
            formats = ["%.4f"] * COLUMNS + ["%d", "%d"]
            np.savetxt(file, np.column_stack([X, rng.integers(1000, size=n), y]), formats, delimiter=",")


def memory() -> float:
    """The most that the process ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(path: Path, learn: bool, rows: int) -> None:
    """One pass."""
    model = RandomBudgetPerceptron(budget=200, random_state=0)
    clock, processor, early = time.perf_counter(), time.process_time(), 0.0
    with streams.read(path) as stream:
        for block in stream:
            if learn:
                model.predict_then_learn(block.X, block.y, tasks=block.tasks, classes=stream.classes)
            if not early and stream.n_rows >= rows / 10:
                early = memory()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    what = "read, scaled and learned" if learn else "read and scaled"
    speeds = f"{rows / clock:,.0f} rows/s, {rows / processor:,.0f} per processor second"
    print(f"{what}: {speeds}; {early:.0f} MiB after a tenth, {memory():.0f} MiB after all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.csv"
        write(path, rows)
        for learn in (False, True):
            run(path, learn, rows)


if __name__ == "__main__":
    main()
