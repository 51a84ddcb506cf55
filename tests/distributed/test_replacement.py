"""`RayPool` without Ray: which process replaces a lost worker, and which signal handlers remain after Ray's start."""

from __future__ import annotations

import signal
import threading

import pytest

from budgetron.distributed.workers import ray_pool
from budgetron.distributed.workers.ray_pool import TURN_TIMEOUT, RayPool


class ScriptedPool(RayPool):
    """A pool without Ray. Its spare and its restarted actor answer at given times of a simulated clock.

    Only waiting moves the clock.
    """

    def __init__(self, clock, spare_answers_at=None, actor_answers_at=None, actor_dies_at=None):
        self.clock, self.asked = clock, []
        self.spare_answers_at, self.actor_answers_at = spare_answers_at, actor_answers_at
        self.actor_dies_at = actor_dies_at

    def _promote_spare(self, name, seconds):
        self.asked.append("spare")
        return self._wait(self.spare_answers_at, seconds)

    def _answers_within(self, name, seconds):
        self.asked.append("actor")
        if self.actor_dies_at is not None and self.clock.now >= self.actor_dies_at:
            return None
        return self._wait(self.actor_answers_at, seconds)

    def _wait(self, answers_at, seconds):
        end = self.clock.now + seconds
        if answers_at is not None and answers_at <= end:
            self.clock.now = max(self.clock.now, answers_at)
            return True
        self.clock.now = end
        return False


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A simulated clock in place of the `time` module of `ray_pool`."""
    clock = Clock()
    monkeypatch.setattr(ray_pool, "time", clock)
    return clock


def test_a_spare_that_is_ready_is_taken_at_once(clock):
    pool = ScriptedPool(clock, spare_answers_at=0.0)
    assert pool._replace_within("worker-0", 60)
    assert (clock.now, pool.asked) == (0.0, ["spare"])


@pytest.mark.parametrize("first", ["spare", "actor"])
def test_the_process_that_answers_first_replaces_the_worker(clock, first):
    times = {"spare_answers_at": 20.0, "actor_answers_at": 50.0}
    if first == "actor":
        times = {"spare_answers_at": 50.0, "actor_answers_at": 20.0}
    pool = ScriptedPool(clock, **times)
    assert pool._replace_within("worker-0", 60)
    assert pool.asked[-1] == first
    assert clock.now <= 20 + TURN_TIMEOUT  # the pool may be waiting for the other process at that time


def test_waiting_ends_in_time_if_neither_answers(clock):
    assert not ScriptedPool(clock)._replace_within("worker-0", 10)
    assert clock.now == 10


def test_an_actor_that_ray_will_not_restart_is_not_waited_for(clock):
    assert not ScriptedPool(clock, actor_dies_at=0.0)._replace_within("worker-0", 60)
    assert clock.now == TURN_TIMEOUT  # the pool waits for the spare first


def test_starting_ray_restores_the_programs_own_signal_handlers():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread can set handlers")

    def saves_the_model(number, frame): ...

    def ray_handler(number, frame): ...

    before = signal.getsignal(signal.SIGTERM)
    try:
        for program, expected in ((saves_the_model, saves_the_model), (signal.SIG_DFL, ray_handler)):
            signal.signal(signal.SIGTERM, program)
            with ray_pool._keeping_signal_handlers():
                signal.signal(signal.SIGTERM, ray_handler)
            assert signal.getsignal(signal.SIGTERM) is expected
    finally:
        signal.signal(signal.SIGTERM, before)
