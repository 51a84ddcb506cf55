"""Measure the cost and the gain of shards.

    python benchmarks/distributed/run.py [--only NAME] [--quick]

    throughput   examples/s of plain learners in 1 and 2 processes, which is the limit of the machine; then of threads,
                 of threads with a log and of Ray actors, with 1 and 2 workers; B = 1000 per shard
    overhead     µs per example of a learner that does almost no work, in process, with a log and on Ray, by rows per
                 block
    recovery     seconds from the kill of a worker to the next answer
    replicas     errors of replicas and of one learner, on dense rows: Chem97, flights and two synthetic streams
    text         the same on sparse rows: Sentiment and Spam A

Writes results.json beside this file; simulate.py reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import tempfile
import time
import warnings
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

import ceiling
import numpy as np
import quiet

from budgetron import BudgetProjectron, Budgetron, SharedProjectron, data, graphs, kernels
from budgetron.distributed import ReplicatedModel, ShardedModel

OUT = Path(__file__).with_name("results.json")
BUDGET, SHARDS = 1000, 8  # stored examples per shard, and the number of shards
TEXT_MIB = 4  # MiB of one learner on text, and of each replica


def stream(n: int, seed: int = 0, k: int = 400, d: int = 28):
    """A stream with noisy labels: about a fifth of the predictions stay wrong, so learners never stop updating."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, d)), rng.integers(0, k, size=n)
    own = np.random.default_rng(7).normal(size=(k, d))
    y = np.einsum("nd,nd->n", X, own[tasks]) + rng.logistic(size=n) > 0
    return X.astype(np.float32), y.astype(int), tasks


def learner() -> BudgetProjectron:
    """A learner whose budget is B = 1000 per shard."""
    return BudgetProjectron(budget=BUDGET * SHARDS, kernel=kernels.Gaussian(gamma=0.02), graph=graphs.disconnected())


def start_ray() -> None:
    """Start a Ray cluster on this machine, unless this process has started one already."""
    import ray

    if not ray.is_initialized():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
                 object_store_memory=100 * 2**20)  # fmt: skip


def learner_of_one_shard() -> BudgetProjectron:
    """The learner of one shard, without a ShardedModel around it."""
    return learner().set_params(budget=BUDGET)


def throughput(quick: bool) -> dict[str, float]:
    """Examples per second with full budgets; busy rounds do not count, see quiet.py."""
    warm, n, min_quiet, max_rounds = (24_000, 4096, 2, 4) if quick else (40_000, 4096, 7, 50)
    plain_rates = ceiling.measure(learner_of_one_shard, stream, SHARDS // 2, n, min_quiet, max_rounds)
    blocks = [stream(n, seed) for seed in range(1, max_rounds + 1)]  # new examples in every round
    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for workers, label in ((1, "1 worker"), (2, "2 workers")):
            on_ray = {"backend": "ray", "ray_options": {"num_cpus": 0.5}, "directory": f"{folder}/ray-{workers}"}
            with_log = {"directory": f"{folder}/log-{workers}"}
            for kind, options in (("threads", {}), ("threads with a log", with_log), ("Ray", on_ray)):
                models[f"{kind}, {label}"] = ShardedModel(learner(), shards=SHARDS, workers=workers, **options)
        for model in models.values():
            X, y, tasks = stream(warm)
            model.partial_fit(X, y, tasks=tasks)
        own_seconds: list[float] = []  # CPU seconds of this process while two workers on Ray learn a block
        contestants = {name: contestant(model, blocks, own_seconds if name == "Ray, 2 workers" else [])
                       for name, model in models.items()}  # fmt: skip
        rates = plain_rates | quiet.rates(contestants, min_quiet, max_rounds)
        stored = [shard.n_stored for shard in models["threads, 1 worker"].shards_]
        for model in models.values():
            model.close()
    medians = {name: rate.median for name, rate in rates.items()}
    for kind in ("plain", "threads", "threads with a log", "Ray"):
        first, second = (rate for name, rate in rates.items() if name.startswith(f"{kind}, "))
        medians[f"{kind}, 2 against 1"] = second.median / first.median
        medians[f"{kind}, quiet rounds"] = min(len(first.quiet), len(second.quiet))
    medians["coordinator, CPU µs"] = 1e6 * float(np.median(own_seconds)) / n
    medians["worker, CPU µs"] = float(np.median(rates["Ray, 2 workers"].cpu)) - medians["coordinator, CPU µs"]
    return {**medians, "stored a shard, least": min(stored)}


def contestant(model: ShardedModel, blocks: list, own_seconds: list[float]):
    """Return a function that learns a block, and returns the CPU seconds of this process and of its workers on Ray.

    The seconds of this process are also appended to `own_seconds`.
    """

    def worker_seconds() -> float:
        return sum(worker["cpu_seconds"] for worker in model.workers_) if model.backend == "ray" else 0.0

    def work(number: int) -> tuple[int, list[float]]:
        X, y, tasks = blocks[number]
        before, begin = worker_seconds(), time.process_time()
        model.partial_fit(X, y, tasks=tasks)
        own_seconds.append(time.process_time() - begin)
        return len(y), [own_seconds[-1], worker_seconds() - before]

    return work


def overhead(quick: bool) -> dict[str, float]:
    """µs per example of a learner that does almost no work, in process, with a log and on Ray, by rows per block."""
    cheap = BudgetProjectron(budget=8, kernel=kernels.Linear(), graph=graphs.disconnected())
    X, y, tasks = stream(8192)
    rates = {}
    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        bare = ShardedModel(cheap, shards=1)
        logged = ShardedModel(cheap, shards=1, directory=f"{folder}/log")
        far = ShardedModel(cheap, shards=1, backend="ray", directory=f"{folder}/ray", in_flight=1)
        for model in (bare, logged, far):
            model.partial_fit(X, y, tasks=tasks)
        for size in (32, 64, 128, 256, 512, 1024):
            cost = {}
            for name, model in (("in process", bare), ("with the log", logged), ("on Ray, with the log", far)):
                times = []
                for start in range(0, min(8192, size * (8 if quick else 30)), size):
                    begin = time.perf_counter()
                    part = slice(start, start + size)
                    model.partial_fit(X[part], y[part], tasks=tasks[part])
                    times.append(time.perf_counter() - begin)
                cost[name] = 1e6 * float(np.median(times)) / size
            rates[str(size)] = cost
            print(size, {name: round(value, 1) for name, value in cost.items()}, flush=True)
        for model in (bare, logged, far):
            model.close()
    return rates


def recovery(quick: bool) -> dict[str, float]:
    """Seconds that a block takes if its worker has just been killed, including the replay of the log."""
    X, y, tasks = stream(20_000)
    seconds_after_kill, usual, load = [], [], []
    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        model = ShardedModel(learner(), shards=SHARDS, workers=1, backend="ray", directory=folder)
        model.partial_fit(X, y, tasks=tasks)
        for number in range(2 if quick else 4):
            part = slice(number * 512, number * 512 + 512)
            begin = time.perf_counter()
            model.partial_fit(X[part], y[part], tasks=tasks[part])
            usual.append(time.perf_counter() - begin)
            time.sleep(10)  # the worker that was killed last has restarted by then, and is the spare
            os.kill(model.workers_[0]["pid"], signal.SIGKILL)
            begin = time.perf_counter()
            model.partial_fit(X[part], y[part], tasks=tasks[part])
            seconds_after_kill.append(time.perf_counter() - begin)
            load.append(os.getloadavg()[0])
            print(f"recovered in {seconds_after_kill[-1]:.2f} s, load {load[-1]:.1f}", flush=True)
        model.close()
    return {
        "seconds, median": float(np.median(seconds_after_kill)),
        "seconds, most": max(seconds_after_kill),
        "usual": float(np.median(usual)),
        "load, median": float(np.median(load)),
    }


def streams(quick: bool):
    n = 8000 if quick else 40_000
    for name in ("chem97", "flights"):
        try:
            dataset = data.load(name).shuffled(seed=0)
        except Exception as error:
            print(f"{name} is not available: {error}")
            continue
        yield (
            name,
            data.standardized(dataset.X)[:n],
            dataset.y[:n],
            [str(task) for task in np.asarray(dataset.tasks)[:n]],
        )
    rng = np.random.default_rng(0)
    k, d = 2000, 8
    own, tasks = 0.5 * rng.normal(size=(k, d)), rng.integers(0, k, size=n)
    X = rng.normal(size=(n, d))
    f = np.einsum("nd,nd->n", X, rng.normal(size=d) + own[tasks]) + X[:, 0] * X[:, 1]
    yield "synthetic", X, (f + 0.3 * rng.logistic(size=n) > 0).astype(int), tasks
    # Thresholds of columns, which only beliefs on bins describe well.
    X, tasks = rng.normal(size=(n, d)), rng.integers(0, k, size=n)
    steps = [(0, 0.5, 2.0), (1, -0.3, -2.0), (2, 1.0, 1.5), (3, -1.0, 1.0), (4, 0.0, -1.5)]  # column, threshold, effect
    f = sum(effect * (X[:, column] > threshold) for column, threshold, effect in steps)
    f += 0.3 * rng.normal(size=k)[tasks] - ((X[:, 0] > 0.5) & (X[:, 5] > 0))
    yield "thresholds", X, (f + 0.3 * rng.logistic(size=n) > 0).astype(int), tasks


def replicas(quick: bool) -> list[dict[str, float | str]]:
    """Error % of one learner and of replicas, by how often they exchange; and bytes per exchange and replica.

    The bytes are those of the last setting.
    """
    rows = []
    for name, X, y, tasks in streams(quick):
        for make in (Budgetron, SharedProjectron):
            margins = make(budget=200).predict_then_learn(X, y, tasks=tasks)
            row: dict[str, float | str] = {"stream": name, "learner": make.__name__}
            row["one learner"] = 100 * float(np.mean((margins > 0) != y))
            for count in (2, 8):
                for every in (None, 8192, 1024):
                    learner = make(budget=200 * count)  # 200 per replica, as for the one learner
                    with ReplicatedModel(learner, replicas=count, exchange_every=every or 10**9) as model:
                        replicated = model.predict_then_learn(X, y, tasks=tasks)
                        label = "never" if every is None else str(every)
                        row[f"{count}, {label}"] = 100 * float(np.mean((replicated > 0) != y))
                        if every is not None:
                            # `exchange` returns the bytes of both directions; the table has the mean of the two.
                            row["bytes"] = model.exchange() / count / 2
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def text(quick: bool) -> list[dict[str, float | str]]:
    """Error % on sparse rows, of one Budgetron and of replicas with as many bytes each, by how often they exchange.

    Sentiment has only four tasks, the kinds of product. With "readers", each kind is divided at random into 25 tasks.
    """
    rows = []
    for name, readers in (("sentiment", 1), ("sentiment", 25), ("spam", 1)):
        dataset = data.load(name).shuffled(seed=0)
        n = 2000 if quick else len(dataset.y)
        X, y = dataset.X[:n], np.asarray(dataset.y[:n])
        reader = np.random.default_rng(0).integers(0, readers, size=n)
        tasks = [f"{task} {number}" for task, number in zip(dataset.tasks[:n], reader, strict=True)]
        margins = Budgetron(budget=f"{TEXT_MIB} MiB").predict_then_learn(X, y, tasks=tasks)
        row: dict[str, float | str] = {"stream": name if readers == 1 else f"{name}, readers"}
        row["one learner"] = 100 * float(np.mean((margins > 0) != y))
        for count in (1, 2, 4):
            for every in (None, 1024, 256):
                learner = Budgetron(budget=f"{TEXT_MIB * count} MiB")  # as many bytes per replica as the one learner
                options = {"exchange_every": every or 10**9, "block": min(1024, every or 1024)}
                with ReplicatedModel(learner, replicas=count, **options) as model:
                    replicated = model.predict_then_learn(X, y, tasks=tasks)
                    row[f"{count}, {every or 'never'}"] = 100 * float(np.mean((replicated > 0) != y))
                    if every is not None:
                        row["bytes"] = model.exchange() / count / 2
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


GROUPS = {"replicas": replicas, "text": text, "overhead": overhead, "recovery": recovery, "throughput": throughput}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer repetitions")
    parser.add_argument("--only", action="append", choices=list(GROUPS), help="a group; may be repeated")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # Ray causes these warnings
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in arguments.only or GROUPS:
        results[name] = GROUPS[name](arguments.quick)
        OUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
