"""Measure rates on a shared machine. Rounds in which other programs used the processor do not count.

`rates` calls the contestants in turn, and waits for a quiet moment before each. A round is quiet if other programs used
less than `BUSY` of one core. If no round is quiet, or without Linux's /proc, every round counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

BUSY = 0.12  # of one core: a moment in which other programs use less is quiet
MAX_WAIT = 240.0  # seconds after which `rates` no longer waits for quiet moments
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")


@dataclass
class Rate:
    """Examples per second in the quiet rounds and in all rounds, and CPU µs per example."""

    quiet: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return float(np.median(self.quiet or self.all))


def rates(
    contestants: dict[str, Callable[[int], tuple[int, Sequence[float]]]], min_quiet: int, max_rounds: int
) -> dict[str, Rate]:
    """Measure all contestants until each has `min_quiet` quiet rounds, or for `max_rounds` rounds.

    After `MAX_WAIT` seconds, `min_quiet` rounds of any kind are enough. A contestant is called with the number of the
    round. It returns how many examples it learned, and the CPU seconds of its processes.
    """
    rates = {name: Rate() for name in contestants}
    deadline = time.monotonic() + MAX_WAIT
    for number in range(max_rounds):
        for name, work in contestants.items():
            wait_until_quiet(deadline)
            before, begin = busy_seconds(), time.perf_counter()
            n, own = work(number)
            took = time.perf_counter() - begin
            others = (busy_seconds() - before - sum(own)) / took
            rate = rates[name]
            rate.all.append(n / took)
            rate.cpu.append(1e6 * sum(own) / n)
            if others < BUSY:
                rate.quiet.append(n / took)
            print(f"{name:24} {n / took:10,.0f} examples/s, others took {others:.2f} of a core", flush=True)
        enough = all(len(rate.quiet) >= min_quiet for rate in rates.values())
        if enough or (time.monotonic() > deadline and number + 1 >= min_quiet):
            break
    return rates


def wait_until_quiet(end: float) -> None:
    while time.monotonic() < end:
        before, begin = busy_seconds(), time.perf_counter()
        time.sleep(0.2)
        if (busy_seconds() - before) / (time.perf_counter() - begin) < BUSY:
            return


def busy_seconds() -> float:
    """CPU seconds of the whole machine since it started."""
    if not _STAT.exists():
        return 0.0
    user, nice, system, _, _, *interrupts = map(int, _STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / _TICKS
