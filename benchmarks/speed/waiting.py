"""How long a call of `learn_one` takes while four threads predict: median, 99th percentile and maximum in ms.

    python benchmarks/speed/waiting.py

These are wall-clock times and depend on other load, so compare only builds on the same machine.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from budgetron import BudgetProjectron, kernels

THREADS, SECONDS, PAUSE = 4, 6.0, 0.002


def waits(model: BudgetProjectron, rows: int) -> list[float]:
    """Seconds of each call of `learn_one` while other threads predict blocks of rows."""
    rng = np.random.default_rng(0)
    X, to_predict = rng.normal(size=(4000, 50)), rng.normal(size=(rows, 50))
    y = X[:, 0] * X[:, 1] > 0
    model.partial_fit(X, y)
    stop = threading.Event()

    def predict() -> None:
        while not stop.is_set():
            model.decision_function(to_predict)

    threads = [threading.Thread(target=predict) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    waits: list[float] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        i = len(waits) % len(X)
        start = time.perf_counter()
        model.learn_one(X[i], bool(y[i]))
        waits.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    stop.set()
    for thread in threads:
        thread.join()
    return waits


def main() -> None:
    print("| engine | budget | rows of a prediction | calls | median, ms | 99 %, ms | longest, ms |")
    print("|---|---|---|---|---|---|---|")
    for engine, budget, rows in (("core", 1000, 256), ("core", 1000, 65_536), ("numpy", 200, 4096)):
        seconds = waits(BudgetProjectron(budget=budget, kernel=kernels.Gaussian(gamma=0.02), engine=engine), rows)
        numbers = " | ".join(f"{1000 * q:.2f}" for q in np.quantile(seconds, [0.5, 0.99, 1.0]))
        print(f"| {engine} | {budget} | {rows} | {len(seconds)} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
