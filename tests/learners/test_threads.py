"""Several threads use one model: every prediction of up to 64 rows comes from a state of the model between two blocks.

Longer predictions are made in pieces of 64 rows, each from one such state.
"""

from __future__ import annotations

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import makers
import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetron import Perceptron, kernels
from budgetron.errors import InputError
from budgetron.learners.lifecycle.guard import Guard

RNG = np.random.default_rng(2)
BLOCKS, SIZE = 30, 40
X = RNG.normal(size=(BLOCKS * SIZE, 5))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
TASKS = [f"user {task}" for task in RNG.integers(6, size=len(X))]
PROBE, PROBE_TASKS = X[::60], TASKS[::60]


@pytest.fixture(autouse=True)
def eager_switching():
    """Switch threads every 10 µs instead of 5 ms, so that races are likely to show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def made(learner, engine="auto"):
    return makers.made(learner, kernel=kernels.Gaussian(0.3), engine=engine)


def blocks():
    return [slice(start, start + SIZE) for start in range(0, len(X), SIZE)]


def test_predictions_during_learning_are_those_of_a_model_between_two_blocks(learner):
    model = made(learner)
    after = []
    for block in blocks():
        model.partial_fit(X[block], Y[block], tasks=TASKS[block])
        after.append(model.decision_function(PROBE, tasks=PROBE_TASKS).tobytes())
    model = made(learner).partial_fit(X[:SIZE], Y[:SIZE], tasks=TASKS[:SIZE])
    seen, failures, done = [set() for _ in range(3)], [], threading.Event()

    def watch(mine):
        try:
            while not done.is_set():
                mine.add(model.decision_function(PROBE, tasks=PROBE_TASKS).tobytes())
                stored = model.active_set_
                assert len(stored.task) == len(stored.arrival)
                _ = model.budget_share_, model.memory_bytes_, model.task_weights("user 1")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=watch, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    wait_until(lambda: failures or all(seen))
    for block in blocks()[1:]:
        model.partial_fit(X[block], Y[block], tasks=TASKS[block])
    done.set()
    for thread in threads:
        thread.join()
    assert not failures and all(seen)
    assert all(mine <= set(after) for mine in seen), "a prediction from the middle of a block"
    assert model.decision_function(PROBE, tasks=PROBE_TASKS).tobytes() == after[-1]


def test_learning_from_several_threads_loses_nothing(learner):
    model = made(learner)

    def learn(block):
        return model.predict_then_learn(X[block], Y[block], tasks=TASKS[block], classes=[0, 1])

    with ThreadPoolExecutor(4) as pool:
        margins = list(pool.map(learn, blocks()))
    assert model.n_seen_ == len(X)
    wrong = sum(int(((2 * Y[block] - 1) * f <= 0).sum()) for block, f in zip(blocks(), margins, strict=True))
    assert model.n_mistakes_ == wrong


def test_predictions_during_a_refit_are_those_of_one_of_the_models(learner):
    def refit(model, block):
        return model.fit(X[block], Y[block], tasks=TASKS[block])

    def margins(model):
        return model.decision_function(PROBE, tasks=PROBE_TASKS).tobytes()

    after = {margins(refit(made(learner), block)) for block in blocks()[:15]}
    model = refit(made(learner), blocks()[0])
    seen, failures, done = set(), [], threading.Event()

    def watch():
        try:
            while not done.is_set():
                seen.add(margins(model))
                assert set(model.predict(PROBE, tasks=PROBE_TASKS)) <= {0, 1}
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    wait_until(lambda: failures or seen)
    for block in blocks()[:15]:
        refit(model, block)
    done.set()
    thread.join()
    assert not failures and seen and seen <= after


def test_n_jobs_changes_nothing_but_the_time(learner):
    model = made(learner).partial_fit(X, Y, tasks=TASKS)
    many, tasks = np.tile(X, (3, 1)), TASKS * 3  # 57 pieces of 64 rows, the last one shorter
    expected = model.decision_function(many, tasks=tasks)
    for n_jobs in (1, 2, 5, -1, np.int64(3)):
        assert model.decision_function(many, tasks=tasks, n_jobs=n_jobs).tobytes() == expected.tobytes()
    assert (model.predict(many, tasks=tasks, n_jobs=2) == model.predict(many, tasks=tasks)).all()
    if hasattr(model, "predict_proba"):
        assert (model.predict_proba(many, tasks=tasks, n_jobs=2) == model.predict_proba(many, tasks=tasks)).all()


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "2", 10**9])
def test_invalid_n_jobs_are_refused(n_jobs):
    model = Perceptron().partial_fit(X[:SIZE], Y[:SIZE])
    with pytest.raises(InputError, match="n_jobs must be an integer from 1"):
        model.predict(X, n_jobs=n_jobs)


def test_n_jobs_reaches_the_learner_in_a_pipeline():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), Perceptron()).fit(X, Y, tasks=TASKS)
        assert (pipeline.predict(X, tasks=TASKS, n_jobs=2) == pipeline.predict(X, tasks=TASKS)).all()


def test_two_threads_may_make_the_first_call_at_once(learner):
    for _ in range(20):
        model, barrier = made(learner), threading.Barrier(2)

        def learn(rows, model=model, barrier=barrier):
            barrier.wait()
            try:
                model.partial_fit(rows, Y[:SIZE], tasks=TASKS[:SIZE], classes=[0, 1])
            except ValueError as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(learn, (X[:SIZE], X[:SIZE, :2])))
        assert sorted(map(bool, outcomes)) == [False, True] and "columns" in "".join(outcomes)


def wait_until(condition):
    """Wait for another thread to reach a state; the runner ends a test that hangs."""
    while not condition():
        threading.Event().wait(0.001)


def test_the_lock_of_a_model_serves_in_the_order_of_arrival():
    """Each thread requests the lock once the thread before it is waiting.

    The main thread holds the lock first. It requests the lock again as soon as it has released it, and gets it last.
    """
    guard, order = Guard(), []

    def enter(name):
        with guard, guard:  # a thread that holds the lock gets it again
            order.append(name)

    threads = [threading.Thread(target=enter, args=(name,)) for name in "abcd"]
    with guard:
        for n, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda n=n: len(guard.waiting) == n)
    enter("first again")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "d", "first again"]


def test_a_thread_that_stops_waiting_blocks_no_other(monkeypatch):
    guard, order = Guard(), []

    class Interrupted:
        """A lock that raises KeyboardInterrupt."""

        def __init__(self):
            self.calls = 0

        def acquire(self):
            self.calls += 1
            if self.calls == 2:  # the guard acquires the new lock once, and a second time to sleep on it
                raise KeyboardInterrupt

    guard.__enter__()
    with monkeypatch.context() as patched:
        patched.setattr("budgetron.learners.lifecycle.guard.Lock", Interrupted)

        def give_up():
            with pytest.raises(KeyboardInterrupt):
                guard.__enter__()
            order.append("gave up")

        quitter = threading.Thread(target=give_up)
        quitter.start()
        quitter.join()
    assert not guard.waiting
    guard.__exit__()
    with guard:
        order.append("entered")
    assert order == ["gave up", "entered"]


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_each_piece_of_a_long_prediction_comes_from_a_state_between_two_blocks(engine):
    """A long prediction releases the lock after each piece of 64 rows, so that learning can continue.

    So while another thread learns, the pieces of one prediction come from several states of the model.
    """
    model = made(Perceptron, engine).partial_fit(X[:SIZE], Y[:SIZE], classes=[0, 1])
    rows = np.tile(X[:64], (100, 1))
    after = {model.decision_function(X[:64]).tobytes()}
    stop, failures, calls = threading.Event(), [], []  # for each call of decision_function, the set of its pieces

    def ask():
        try:
            while not stop.is_set():
                margins = model.decision_function(rows)
                calls.append({margins[start : start + 64].tobytes() for start in range(0, len(rows), 64)})
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    for block in itertools.cycle(blocks()):
        model.partial_fit(X[block], Y[block])
        after.add(model.decision_function(X[:64]).tobytes())
        if failures or len(calls) >= 50 or any(len(pieces) > 1 for pieces in calls):
            break
    stop.set()
    thread.join()
    assert not failures and set().union(*calls) <= after
    assert max(map(len, calls)) > 1, "nothing was learned during a prediction"
