"""How fast the service is, beside an empty Starlette endpoint in the same run; and whether its memory stays flat.

    python benchmarks/service/run.py [--seconds 5] [--json FILE]

d = 28, B = 500, 100 tasks. Single predictions are POSTs of one example over 32 connections; "half load" is half of the
rate that was reached, sent evenly. Learning is NDJSON, durable: acknowledged lines are on disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
from load import measured, post

HERE = Path(__file__).parent
LEARNERS = {
    "RandomBudgetPerceptron": "RandomBudgetPerceptron budget=500 kernel=gaussian:0.02",
    "Budgetron": "Budgetron budget=500",
}
D, TASKS = 28, 100


def examples(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).round(4)
    tasks = rng.integers(TASKS, size=n)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n) > 0).astype(int)
    return [
        {"features": row, "label": label, "task": f"task {task}"}
        for row, label, task in zip(X.tolist(), y.tolist(), tasks.tolist(), strict=True)
    ]


@contextlib.contextmanager
def process(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server of our own, until it answers; ended by its id."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env)
    try:
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if time.monotonic() > end or running.poll() is not None:
                raise SystemExit(f"{command} did not start")
            time.sleep(0.05)
        yield running
    finally:
        running.terminate()
        running.wait(60)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used: what does not depend on who else is busy."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bench_empty(seconds: float) -> dict[str, Any]:
    port = free_port()
    body = msgspec.json.encode({key: examples(1, 0)[0][key] for key in ("features", "task")})
    with process([sys.executable, str(HERE / "empty.py"), str(port)], port) as server:
        measured(port, post("/", body), 1.0)
        began = cpu(server.pid)
        full = measured(port, post("/", body), seconds)
        took = cpu(server.pid) - began
    times = {"p50_ms": full.percentile(50), "p99_ms": full.percentile(99)}
    return {"requests_per_second": full.rate, "cpu_us": 1e6 * took / full.requests, **times}


def bench_learner(text: str, seconds: float) -> dict[str, Any]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "budgetron", "serve", text, "--data", folder, "--port", str(port)]
        url = f"http://127.0.0.1:{port}"
        with process(command, port) as service, httpx.Client(base_url=url, timeout=600) as client:
            learned = learning(client, service.pid, seconds)
            one = examples(1, 5)[0]
            request = post("/v1/predict", msgspec.json.encode({"features": one["features"], "task": one["task"]}))
            measured(port, request, 1.0)
            began = cpu(service.pid)
            full = measured(port, request, seconds)
            took = cpu(service.pid) - began
            half = measured(port, request, seconds, rate=full.rate / 2)
            return {
                "predictions_per_second": full.rate, "prediction_cpu_us": 1e6 * took / full.requests,
                "p99_ms": full.percentile(99),
                "half_load_per_second": half.rate, "half_load_p50_ms": half.percentile(50),
                "half_load_p99_ms": half.percentile(99), **learned, **flat(client, port, request, service.pid, seconds),
            }  # fmt: skip


def learning(client: httpx.Client, pid: int, seconds: float) -> dict[str, Any]:
    """Lines of NDJSON, some thousand a request, until the time is over."""
    blocks = [b"\n".join(map(msgspec.json.encode, examples(8192, seed))) for seed in range(4)]
    kind = {"Content-Type": "application/x-ndjson"}
    done, began, used = 0, 0.0, 0.0
    for turn in range(10_000):
        if turn == 1:  # the first fills the budget
            done, began, used = 0, time.perf_counter(), cpu(pid)
        answer = client.post("/v1/learn", content=blocks[turn % 4], headers=kind)
        last = json.loads(answer.text.splitlines()[-1])
        assert last == {"done": True, "lines": 8192, "refused": 0}, last
        done += 8192
        if turn >= 2 and time.perf_counter() - began > seconds:
            break
    return {
        "learned_per_second": done / (time.perf_counter() - began),
        "learned_cpu_us": 1e6 * (cpu(pid) - used) / done,
    }


def flat(client: httpx.Client, port: int, request: bytes, pid: int, seconds: float) -> dict[str, Any]:
    """The slope of the process's memory over mixed traffic: bytes a request, by least squares over the later half."""
    n, counts, sizes = 0, [], []
    for turn in range(20):
        n += measured(port, request, seconds / 2).requests
        block = b"\n".join(map(msgspec.json.encode, examples(2048, 100 + turn)))
        client.post("/v1/learn", content=block, headers={"Content-Type": "application/x-ndjson"})
        n += 2048
        counts.append(n)
        sizes.append(memory(pid))
    slope = float(np.polyfit(counts[10:], sizes[10:], 1)[0])
    return {"memory_bytes": sizes[-1], "memory_slope_bytes_per_request": slope, "memory_requests": n}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"empty": bench_empty(given.seconds)}
    found |= {name: bench_learner(text, given.seconds) for name, text in LEARNERS.items()}
    found["empty again"] = bench_empty(given.seconds)
    found["load_average"] = os.getloadavg()[0]
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(shown(found))


def shown(found: dict[str, Any]) -> str:
    """The figures as a table, with what the machine was doing besides."""
    both = (found["empty"], found["empty again"])
    empty = sum(one["requests_per_second"] for one in both) / 2
    lines = [
        f"load average of the machine: {found['load_average']:.1f}",
        "",
        "| | requests/s | × empty | CPU µs each | p99 at half load | learned/s, durable | CPU µs each | memory |",
        "|---|---|---|---|---|---|---|---|",
        f"| empty Starlette endpoint | {empty:,.0f} | 1 | {sum(one['cpu_us'] for one in both) / 2:.0f} | | | | |",
    ]
    for name in LEARNERS:
        one = found[name]
        slope = f"{one['memory_slope_bytes_per_request']:+.1f} bytes a request over {one['memory_requests']:,}"
        cells = [
            name, f"{one['predictions_per_second']:,.0f}", f"{one['predictions_per_second'] / empty:.2f}",
            f"{one['prediction_cpu_us']:.0f}", f"{one['half_load_p99_ms']:.1f} ms", f"{one['learned_per_second']:,.0f}",
            f"{one['learned_cpu_us']:.0f}", f"{one['memory_bytes'] / 2**20:.0f} MiB, {slope}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
