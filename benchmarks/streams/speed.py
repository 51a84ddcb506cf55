"""The speed of a file of 10⁶ rows × 30 columns, end to end: read, scale, predict and learn, in one thread.

    python benchmarks/streams/speed.py [--rows N] [--format csv|ndjson|svmlight|vw]

Prints rows per second of wall-clock and of processor time, for reading alone and with learning, and the peak memory
after a tenth of the rows and after all.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from budgetron import RandomBudgetPerceptron, io

COLUMNS = 28  # besides a task and a label
TASK = {"csv": None, "ndjson": None, "svmlight": "qid", "vw": "task"}
"""Format → the argument `task` of `io.read`; None recognises the column by its name."""


def line_of(format: str) -> list[str]:
    """The format strings of the values of one row, in order. Joined, they format the whole line."""
    if format == "ndjson":
        return ['{"x0": %.4f', *(f', "x{i}": %.4f' for i in range(1, COLUMNS)), ', "task": %d', ', "label": %d}']
    if format == "svmlight":
        return ["%d", " qid:%d", *(f" {i}:%.4f" for i in range(COLUMNS))]
    if format == "vw":
        return ["%d", " |task %d", *(f" {'|x ' if i == 0 else ''}x{i}:%.4f" for i in range(COLUMNS))]
    return ["%.4f", *[",%.4f"] * (COLUMNS - 1), ",%d", ",%d"]


def write(path: Path, rows: int, format: str) -> None:
    """Write the file. A row has 28 numbers of four decimals, one of 1,000 tasks, and a label."""
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="ascii") as file:
        if format == "csv":
            file.write(",".join([*(f"x{i}" for i in range(COLUMNS)), "task", "label"]) + "\n")
        for start in range(0, rows, 10_000):
            n = min(10_000, rows - start)
            X = rng.normal(size=(n, COLUMNS))
            y = X[:, 0] + X[:, 1] * X[:, 2] > 0
            task = rng.integers(1000, size=n)
            columns = [y, task, X] if format in ("svmlight", "vw") else [X, task, y]
            np.savetxt(file, np.column_stack(columns), "".join(line_of(format)))


def memory() -> float:
    """The peak memory of the process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(path: Path, learn: bool, rows: int, format: str) -> None:
    """Measure one pass over the file."""
    model = RandomBudgetPerceptron(budget=200, random_state=0)
    clock, processor, early = time.perf_counter(), time.process_time(), 0.0
    with io.read(path, format=format, task=TASK[format]) as stream:
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
    parser.add_argument("--format", choices=list(TASK), default="csv")
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream"
        write(path, rows, arguments.format)
        for learn in (False, True):
            run(path, learn, rows, arguments.format)


if __name__ == "__main__":
    main()
