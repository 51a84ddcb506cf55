"""Simulate a thousand workers, 10⁸ tasks and 10⁶ examples/s from measured costs.

    python benchmarks/distributed/simulate.py

The script reads results.json of run.py, uses the library's own hashing and placement, and writes simulation.json.

Assumed, not measured:
- the r-th busiest task has a rate proportional to 1/r^0.8; the busiest million are simulated one by one, the others by
  their total rate
- examples come as a Poisson stream; a worker is one core and serves in order
- a worker fails once in 30 days, and is replaced after the recovery time that run.py measured; the examples that wait
  meanwhile are calculated, not simulated
- every 50,000 examples, a shard writes a snapshot; its worker stops while the file is written at 200 MB/s
- the network and the coordinators (one for every 10 workers) keep up: they are not simulated
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from budgetron.distributed.split.placement import splitmix64, workers_of

HERE = Path(__file__).parent
SHARDS, TASKS, RATE = 16_000, 10**8, 1e6
BUSY, EXPONENT = 10**6, 0.8
SECONDS, STEP = 300, 0.01
MTBF = 30 * 86_400.0  # mean time between failures of a worker, in seconds
DISK = 200e6  # bytes per second
SNAPSHOT_EVERY = 50_000


def shard_rates(pinned: int) -> np.ndarray:
    """Examples per second of each shard. Each of the `pinned` busiest tasks has its own shard."""
    ranks = np.arange(1, BUSY + 1, dtype=np.float64)
    weights = ranks**-EXPONENT
    # The sum of the weights of all other tasks, approximated by an integral.
    rest = ((TASKS + 0.5) ** (1 - EXPONENT) - (BUSY + 0.5) ** (1 - EXPONENT)) / (1 - EXPONENT)
    scale = RATE / (weights.sum() + rest)
    shards = (splitmix64(np.arange(BUSY)) % np.uint64(SHARDS - pinned)).astype(np.int64)
    shards[:pinned] = SHARDS - pinned + np.arange(pinned)
    rates = np.bincount(shards, weights=weights * scale, minlength=SHARDS)
    rates[: SHARDS - pinned] += rest * scale / (SHARDS - pinned)
    return rates


def simulate(rates: np.ndarray, owner: np.ndarray, n: int, cost: float, recovery: float, model_bytes: float) -> dict:
    """Simulate the queues for five minutes in steps of 10 ms."""
    rng = np.random.default_rng(0)
    arriving = np.bincount(owner, weights=rates, minlength=n)
    busy = arriving * cost
    snapshots = arriving / SNAPSHOT_EVERY  # per second
    pause = model_bytes / DISK
    waiting, waits = np.zeros(n), []
    for _ in range(int(SECONDS / STEP)):
        work = rng.poisson(arriving * STEP) * cost + rng.poisson(snapshots * STEP) * pause
        waiting = np.maximum(0.0, waiting + work - STEP)
        waits.append(waiting.astype(np.float32))
    settled = np.array(waits[len(waits) // 10 :])  # without the first tenth, in which queues fill
    kept_up = busy + snapshots * pause < 1
    return {
        "workers": n,
        "utilisation, mean": float(busy.mean()),
        "utilisation, busiest": float(busy.max()),
        "workers that cannot keep up": int((~kept_up).sum()),
        "wait ms, 99 %": 1e3 * float(np.quantile(settled[:, kept_up], 0.99)),
        "wait ms, 99.9 %": 1e3 * float(np.quantile(settled[:, kept_up], 0.999)),
        "failures a day": n * 86_400 / MTBF,
        "a failure: examples that wait, median worker": float(np.median(arriving) * recovery),
        "a failure: seconds until caught up, median worker": float(recovery / max(1e-9, 1 - np.median(busy))),
        "snapshot MB/s, all workers": float(snapshots.sum() * model_bytes / 1e6),
        "log MB/s, all workers": float(RATE * (28 * 4 + 16) / 1e6),
    }


def main() -> None:
    measured = json.loads((HERE / "results.json").read_text())
    cost = measured["throughput"]["worker, CPU µs"] / 1e6
    recovery = measured["recovery"]["seconds, median"]
    model_bytes = 1000 * 28 * 4 + 1000 * 1001 / 2 * 8 * 2  # float32 rows, and two triangular matrices in float64
    results: dict = {"cost µs": 1e6 * cost, "recovery s": recovery, "model MB": model_bytes / 1e6}
    for label, n, pinned in (("1000", 1000, 0), ("200", 200, 0), ("200, the 16 busiest tasks apart", 200, 16)):
        names = [f"worker-{number}" for number in range(n)]
        number = {name: i for i, name in enumerate(names)}
        rates = shard_rates(pinned)
        placed = workers_of(SHARDS - pinned, names[: n - pinned])  # the workers of pinned tasks have no other shards
        owner = np.array([*(number[worker] for worker in placed.values()), *range(n - pinned, n)])
        results[label] = simulate(rates, owner, n, cost, recovery, model_bytes)
    names = [f"worker-{number}" for number in range(1100)]
    before, after = workers_of(SHARDS, names[:1000]), workers_of(SHARDS, names)
    moved = sum(before[shard] != after[shard] for shard in range(SHARDS))
    results["100 workers more"] = {"shards moved": moved, "of": SHARDS, "GB moved": moved * model_bytes / 1e9}
    results["busiest task, examples/s"] = float(shard_rates(1)[-1])
    (HERE / "simulation.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(results, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
