"""The speed of the service relative to an empty Starlette endpoint on the same HTTP server, and its memory growth.

    python benchmarks/service/run.py [--seconds 2] [--rounds 15] [--json FILE] [--docs docs/service.md]

Examples have d = 28 features and belong to 100 tasks; the budget is B = 500. A request is a POST of one example, over
one of 32 connections. All servers run while predictions are measured. They are measured in turn, round by round, so
that other load on the machine affects them alike. A ratio is computed from the two rates of one round; the table has
the median and the range over all rounds. "Half load" is half of the median rate, sent evenly. Learning sends NDJSON and
is durable: acknowledged lines are on disk. It is measured once per learner, before the predictions. With --docs, the
table replaces the one in that page. Run this script on an otherwise idle machine; the load average is printed with the
figures.
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
BEGIN, END = "<!-- written by benchmarks/service/run.py -->", "<!-- end -->"


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
    """Start a server, wait until its port is open, and stop it at the end."""
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
    """The resident bytes of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(pid: int) -> float:
    """CPU seconds that a process has used, which depend less on other load than wall-clock time."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def single_requests(servers: dict[str, tuple[int, int, bytes]], rounds: int, seconds: float) -> dict[str, Any]:
    """Measure single requests to all servers in turn; `servers` maps names to process id, port and request."""
    for _, port, request in servers.values():
        measured(port, request, 1.0)  # warm up
    rates: dict[str, list[float]] = {name: [] for name in servers}
    cpu_us: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(rounds):
        # Rotate, so that no server always follows the same one.
        names = list(servers)[turn % len(servers) :] + list(servers)[: turn % len(servers)]
        for name in names:
            pid, port, request = servers[name]
            begin = cpu(pid)
            full = measured(port, request, seconds)
            rates[name].append(full.rate)
            cpu_us[name].append(1e6 * (cpu(pid) - begin) / full.requests)
    return {"rates": rates, "cpu_us": cpu_us}


def bench(rounds: int, seconds: float) -> dict[str, Any]:
    """Measure learning on each of the two services when it has started, and then predictions on all three servers."""
    example = examples(1, 5)[0]
    body = msgspec.json.encode({"features": example["features"], "task": example["task"]})
    results: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        port = free_port()
        running = stack.enter_context(process([sys.executable, str(HERE / "empty.py"), str(port)], port))
        servers = {"empty": (running.pid, port, post("/", body))}
        clients = {}
        for name, text in LEARNERS.items():
            port, folder = free_port(), stack.enter_context(tempfile.TemporaryDirectory())
            command = [sys.executable, "-m", "budgetron", "serve", text, "--data", folder, "--port", str(port)]
            running = stack.enter_context(process(command, port))
            clients[name] = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600))
            servers[name] = (running.pid, port, post("/v1/predict", body))
            wait_until_ready(clients[name])
            results[name] = learning(clients[name], running.pid, seconds)
        results |= single_requests(servers, rounds, seconds)
        for name, client in clients.items():
            pid, port, request = servers[name]
            half = measured(port, request, seconds, rate=float(np.median(results["rates"][name])) / 2)
            results[name] |= {"half_load_per_second": half.rate, "half_load_p50_ms": half.percentile(50),
                            "half_load_p99_ms": half.percentile(99)}  # fmt: skip
            results[name] |= memory_growth(client, port, request, pid, seconds)
    return results


def wait_until_ready(client: httpx.Client) -> None:
    for _ in range(600):
        if client.get("/readyz").status_code == 200:
            return
        time.sleep(0.1)
    raise SystemExit("the service did not become ready")


def learning(client: httpx.Client, pid: int, seconds: float) -> dict[str, Any]:
    """Send lines of NDJSON, 8,192 per request, until the time is over."""
    blocks = [b"\n".join(map(msgspec.json.encode, examples(8192, seed))) for seed in range(4)]
    kind = {"Content-Type": "application/x-ndjson"}
    done, begin, used = 0, 0.0, 0.0
    for turn in range(10_000):
        if turn == 1:  # the first request fills the budget
            done, begin, used = 0, time.perf_counter(), cpu(pid)
        answer = client.post("/v1/learn", content=blocks[turn % 4], headers=kind)
        last = json.loads(answer.text.splitlines()[-1])
        assert last == {"done": True, "lines": 8192, "refused": 0}, last
        done += 8192
        if turn >= 2 and time.perf_counter() - begin > seconds:
            break
    return {
        "learned_per_second": done / (time.perf_counter() - begin),
        "learned_cpu_us": 1e6 * (cpu(pid) - used) / done,
    }


def memory_growth(client: httpx.Client, port: int, request: bytes, pid: int, seconds: float) -> dict[str, Any]:
    """Bytes by which memory grows per request of mixed traffic: a least-squares slope over the second half.

    A line that is learned counts as a request.
    """
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
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="also replace the table in this page")
    arguments = parser.parse_args()
    load_average = os.getloadavg()[0]  # read before the measurement, which keeps both cores busy
    results = bench(arguments.rounds, arguments.seconds)
    results["load_average"] = load_average
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(report(results))
    if arguments.docs:
        page = arguments.docs.read_text(encoding="utf-8")
        before, _, after = page.partition(BEGIN)
        rest = after.partition(END)[2]
        arguments.docs.write_text(f"{before}{BEGIN}\n{report(results)}\n{END}{rest}", encoding="utf-8")


def report(results: dict[str, Any]) -> str:
    """The figures as Markdown, with the load of the machine."""
    rates, cpu_us = results["rates"], results["cpu_us"]
    lines = [
        f"Medians (and ranges) of {len(rates['empty'])} rounds, on {os.cpu_count()} cores that also ran the load "
        f"generator; the load average before was {results['load_average']:.1f}.",
        "",
        "| | requests/s | × empty | CPU µs each | p99 at half load | learned/s, durable | CPU µs each | memory |",
        "|---|---|---|---|---|---|---|---|",
        f"| empty endpoint | {spread(rates['empty'], ',.0f')} | 1 | {np.median(cpu_us['empty']):.0f} | | | | |",
    ]
    for name in LEARNERS:
        result = results[name]
        ratios = [ours / empty for ours, empty in zip(rates[name], rates["empty"], strict=True)]
        slope = f"{result['memory_slope_bytes_per_request']:+.1f} bytes per request over {result['memory_requests']:,}"
        cells = [
            f"`{name}`", spread(rates[name], ",.0f"), spread(ratios, ".2f"), f"{np.median(cpu_us[name]):.0f}",
            f"{result['half_load_p99_ms']:.1f} ms", f"{result['learned_per_second']:,.0f}",
            f"{result['learned_cpu_us']:.0f}", f"{result['memory_bytes'] / 2**20:.0f} MiB, {slope}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    costs = [f"{np.median(cpu_us[name]) / np.median(cpu_us['empty']):.2f}" for name in LEARNERS]
    lines += ["", "In CPU time, which other work on the machine affects less, a prediction costs "
                  f"{' and '.join(costs)} times an empty endpoint."]  # fmt: skip
    return "\n".join(lines)


def spread(values: list[float], form: str) -> str:
    return f"{np.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


if __name__ == "__main__":
    main()
