"""Scenarios on a Ray cluster, most of them faults while a model learns. `test_ray` runs this file.

Each scenario returns a dict of facts. The facts are written to a JSON file. A *spare* is a process that is ready to
replace a lost worker.

    python ray_scenarios.py result.json folder scenario scenario …
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import ray_cluster
from streams import stream

from budgetron import BudgetProjectron, graphs, kernels
from budgetron.distributed import ShardedModel
from budgetron.durable import StaleOwner

LEARNER = BudgetProjectron(budget=80, kernel=kernels.Gaussian(gamma=0.4), graph=graphs.disconnected())
BLOCK = 300


def undisturbed(X, y, tasks):
    """The margins of the same model without faults."""
    with ShardedModel(LEARNER, shards=4) as model:
        return model.predict_then_learn(X, y, tasks=tasks)


def learn(model, X, y, tasks, start, stop):
    """Learn some rows in blocks. Returns their margins."""
    margins = [
        model.predict_then_learn(X[i : i + BLOCK], y[i : i + BLOCK], tasks=tasks[i : i + BLOCK])
        for i in range(start, stop, BLOCK)
    ]
    return np.concatenate(margins)


def on_ray(folder, **parameters):
    options = {"shards": 4, "workers": 2, "block": 128, "in_flight": 2, "patience": 30.0, **parameters}
    return ShardedModel(LEARNER, backend="ray", directory=folder, **options)


def kills(cluster, folder, n):
    """Kill the workers in turn, n times in all, at random moments while rows are learned.

    On a busy machine, a worker may be killed before the previous one was replaced, so there may be fewer recoveries
    than kills.
    """
    rng = np.random.default_rng(n)
    rows = 1600 * n
    X, y, tasks = stream(rows, 1)
    killed, margins = 0, []
    with on_ray(folder / "kills") as model:
        margins.append(learn(model, X, y, tasks, 0, BLOCK))
        done = len(margins[0])
        import ray

        pool = model._workers.pool
        spare = ray.get(pool._spare.handle.ping.remote(), timeout=300)["pid"]
        promoted = False
        for number in range(n):
            workers = sorted(model.workers_, key=lambda worker: worker["name"])
            worker = workers[number % len(workers)]
            link = pool._actors[worker["name"]].link
            ray_cluster.wait_until(lambda link=link: link.n_open == 1)
            before = link.n_ended
            timer = threading.Timer(float(rng.uniform(0, 0.03)), os.kill, (worker["pid"], signal.SIGKILL))
            timer.start()
            stop = rows if number == n - 1 else done + 1500
            margins.append(learn(model, X, y, tasks, done, stop))
            timer.join()
            ray_cluster.wait_until(lambda pid=worker["pid"]: ray_cluster.is_gone(pid))
            ray_cluster.wait_until(lambda link=link, before=before: link.n_ended > before)
            killed += 1
            done = min(stop, rows)
            model.predict(X[:50], tasks=tasks[:50])  # notices a worker that was idle when it was killed
            promoted |= number == 0 and spare in [worker["pid"] for worker in model.workers_]
        equal = np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks))
        recovered = model.n_recoveries_ >= n // 2
        facts = {"killed": killed, "equal": equal, "n_seen": model.n_seen_, "recovered": recovered}
    threads = [thread.name for thread in threading.enumerate() if "budgetron" in thread.name]
    return facts | {"promoted": promoted, "threads": threads}


def node(cluster, folder, name="node"):
    """Add a worker on a new node, and kill the raylet of this node under load: other workers take its shards."""
    X, y, tasks = stream(2400, 2)
    with on_ray(folder / name, patience=8.0) as model:
        margins = [learn(model, X, y, tasks, 0, 600)]
        new_node = ray_cluster.add_node(cluster, 1)
        added = model.add_worker()
        before = {worker["name"]: worker for worker in model.workers_}
        shards = before[added]["shards"]
        n_alive = ray_cluster.nodes_alive()
        timer = threading.Timer(0.01, ray_cluster.kill_raylet, (new_node,))
        timer.start()
        margins.append(learn(model, X, y, tasks, 600, 1200))
        timer.join()
        ray_cluster.wait_until(lambda: ray_cluster.nodes_alive() < n_alive)
        margins.append(learn(model, X, y, tasks, 1200, 2400))
        equal = np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks))
        pids = {worker["pid"] for worker in model.workers_}
        moved = bool(shards) and before[added]["pid"] not in pids
        return {"equal": equal, "n_seen": model.n_seen_, "moved": moved, "added": added == "worker-2"}


def stale(cluster, folder):
    """Suspend a worker until it counts as lost. When it resumes, the log rejects its writes."""
    import ray

    X, y, tasks = stream(1200, 3)
    with on_ray(folder / "stale", workers=1, patience=4.0) as model:
        margins = [learn(model, X, y, tasks, 0, 600)]
        pool = model._workers.pool
        former, pid = pool._actors["worker-0"].handle, model.workers_[0]["pid"]
        epoch = model._workers.epoch[0]
        pool._kill = lambda name: pool._actors.pop(name)  # as if the coordinator could not reach the worker
        os.kill(pid, signal.SIGSTOP)
        try:
            margins.append(learn(model, X, y, tasks, 600, 1200))
        finally:
            os.kill(pid, signal.SIGCONT)
        del pool._kill
        from budgetron.distributed.workers.worker import ShardMessage
        from budgetron.durable import StreamRows

        in_shard_0 = [task for task in tasks if int(model._placement.shards_of_tasks([task])[0]) == 0]
        examples = model._validator.convert(X[:1], y[:1], in_shard_0[:1], None)
        block = model._validator.validate_examples(examples, None).block
        refused = False
        try:
            ray.get(former.learn.remote([ShardMessage(0, epoch, block, None, "late", StreamRows([0]))]), timeout=300)
        except ray.exceptions.RayTaskError as error:
            refused = isinstance(error.cause, StaleOwner)
        ray.kill(former)
        equal = np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks))
        return {"refused": refused, "equal": equal, "n_seen": model.n_seen_}


def false_alarms(cluster, folder):
    """Connections end although the workers are alive. The workers are replaced, and no row is learned twice or lost.

    The first two alarms are simulated; then real connections are cut.
    """
    X, y, tasks = stream(2400, 4)
    with on_ray(folder / "alarms", workers=1) as model:
        margins, pids = [learn(model, X, y, tasks, 0, 600)], [model.workers_[0]["pid"]]
        pool = model._workers.pool
        for start in (600, 1200):
            # At the second alarm the spare is the first worker, which still has its old shards.
            ray_cluster.wait_until(lambda: pool._actors["worker-0"].link.n_open == pool._spare.link.n_open == 1)
            link = pool._actors["worker-0"].link
            link.n_ended += 1
            os.kill(pids[-1], signal.SIGSTOP)  # otherwise the worker might answer before the pool notices the alarm
            try:
                margins.append(learn(model, X, y, tasks, start, start + 600))
            finally:
                os.kill(pids[-1], signal.SIGCONT)
            pids.append(model.workers_[0]["pid"])
            link.note_opened()  # as if the worker had connected again
            link.n_open -= 1  # the real connection never ended, and must not count twice
        cutter = threading.Timer(0.02, cut_connections, [pool._links.address[1]])
        cutter.start()
        margins.append(learn(model, X, y, tasks, 1800, 2400))
        cutter.join()
        ray_cluster.wait_until(lambda: pool._actors["worker-0"].link.n_open == pool._spare.link.n_open == 1)
        equal = np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks))
        swapped = pids[0] == pids[2] != pids[1]
        return {"equal": equal, "n_seen": model.n_seen_, "swapped": swapped, "recovered": model.n_recoveries_ >= 2}


def cut_connections(port):
    """Shut down the connections that this process has accepted on a port."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(fd))) as connection:
            connection.getpeername()  # raises OSError for the listening socket, which must stay open
            if connection.family == socket.AF_INET and connection.getsockname()[1] == port:
                connection.shutdown(socket.SHUT_RDWR)


def no_connection(cluster, folder):
    """No worker can connect to the coordinator, so a killed worker is replaced only after Ray has reported its end."""
    X, y, tasks = stream(900, 5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # after this block nobody listens on it
    with on_ray(folder / "alone") as model:
        new_pool = model._new_pool

        def pool_without_connections():
            pool = new_pool()
            pool._links.address = ("127.0.0.1", port)
            return pool

        model._new_pool = pool_without_connections
        margins = [learn(model, X, y, tasks, 0, 300)]
        pool = model._workers.pool
        os.kill(model.workers_[0]["pid"], signal.SIGKILL)
        margins.append(learn(model, X, y, tasks, 300, 900))
        links = [actor.link for actor in (*pool._actors.values(), pool._spare)]
        no_links = all((link.n_open, link.n_ended) == (0, 0) for link in links)
        equal = np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks))
        return {"equal": equal, "n_seen": model.n_seen_, "no_links": no_links, "recovered": model.n_recoveries_ >= 1}


def restarted_spare(cluster, folder):
    """The spare replaces a killed worker, is killed too, and Ray restarts it: it still has the name of the worker."""
    X, y, tasks = stream(900, 6)
    with on_ray(folder / "spare", workers=1) as model:
        margins = [learn(model, X, y, tasks, 0, 300)]
        pool = model._workers.pool
        ray_cluster.wait_until(lambda: pool._spare.link.n_open == 1)
        os.kill(model.workers_[0]["pid"], signal.SIGKILL)
        margins.append(learn(model, X, y, tasks, 300, 600))
        former_worker, pool._spare = pool._spare, None  # so that only the restarted process can take the place
        os.kill(model.workers_[0]["pid"], signal.SIGKILL)
        margins.append(learn(model, X, y, tasks, 600, 900))
        names = [worker["name"] for worker in model.workers_]
        pool._spare = former_worker
        return {"equal": np.array_equal(np.concatenate(margins), undisturbed(X, y, tasks)), "names": names}


def other_token(cluster, folder):
    """A process with another token cannot connect, although a process with the token of the cluster can."""
    program = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"
    command = [sys.executable, "-c", program, cluster.address]

    def connect(token):
        # Ray repeats a rejected request for 20 seconds before it fails.
        environment = os.environ | {"RAY_AUTH_TOKEN": token}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    admitted, rejected = connect(os.environ["RAY_AUTH_TOKEN"]), connect("0" * 64)
    refused = rejected.returncode != 0 and "Authentication token" in rejected.stderr
    return {"admitted": admitted.returncode == 0, "refused": refused}


SCENARIOS = (stale, other_token, false_alarms, no_connection, restarted_spare)
OTHERS = {scenario.__name__: scenario for scenario in SCENARIOS}


def main():
    result, folder, *scenarios = sys.argv[1:]
    results = {}
    with ray_cluster.two_nodes() as cluster:
        for scenario in scenarios:
            name, _, number = scenario.partition(":")
            began = time.monotonic()
            if name == "kills":
                results[scenario] = kills(cluster, Path(folder), int(number))
            elif name.startswith("node"):
                results[scenario] = node(cluster, Path(folder), name)
            else:
                results[scenario] = OTHERS[name](cluster, Path(folder))
            print(f"{scenario} {time.monotonic() - began:.1f} s {results[scenario]}", flush=True)
    Path(result).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
