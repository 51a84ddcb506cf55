"""The number of workers follows the length of the queue within bounds. The service changes it by one at a time."""

from __future__ import annotations

from types import SimpleNamespace

import event_loops
import pytest
from streams import stream

from budgetron import BudgetProjectron, graphs, kernels
from budgetron.distributed import ShardedModel
from budgetron.distributed.autoscale import Autoscaler
from budgetron.errors import InputError, WorkerError

LEARNER = BudgetProjectron(budget=80, kernel=kernels.Gaussian(gamma=0.4), graph=graphs.disconnected())


def test_a_long_queue_adds_one_worker_per_observation_up_to_the_maximum():
    scaler, workers, counts = Autoscaler(min_workers=2, max_workers=6, high=100, calm=3), 2, []
    for waiting in [10_000] * 10 + [0] * 30:
        workers += scaler.change(waiting, workers)
        counts.append(workers)
    assert counts[:10] == [3, 4, 5, 6, 6, 6, 6, 6, 6, 6]  # one more per observation, up to the maximum of 6
    assert counts[10:] == [6, 6, 5, 5, 5, 4, 4, 4, 3, 3, 3, 2] + [2] * 18


def test_a_short_queue_that_comes_and_goes_does_not_change_the_workers():
    scaler = Autoscaler(min_workers=1, max_workers=4, high=100, calm=3)
    assert [scaler.change(waiting, 2) for waiting in (0, 0, 50, 0, 0, 200, 0, 0)] == [0] * 8


def test_the_service_adds_and_removes_workers_of_a_model_in_shards():
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    from budgetron.service.scaling import scale_once

    X, y, tasks = stream(400, 1)
    with ShardedModel(LEARNER, shards=4, workers=1) as model:
        margins = [model.predict_then_learn(X[:200], y[:200], tasks=tasks[:200])]
        host, writer = SimpleNamespace(model=model), SimpleNamespace(waiting=1000)
        hosted = SimpleNamespace(is_fitted=True)
        served = SimpleNamespace(name="m", in_shards=True, hosted=hosted, host=host, writer=writer)
        scaler = Autoscaler(min_workers=1, max_workers=3, high=100, calm=1)
        changes = [event_loops.run(scale_once(served, scaler)) for _ in range(4)]
        assert changes == [1, 1, 0, 0] and len(model.workers_) == 3
        margins.append(model.predict_then_learn(X[200:], y[200:], tasks=tasks[200:]))
        writer.waiting = 0
        assert [event_loops.run(scale_once(served, scaler)) for _ in range(3)] == [-1, -1, 0]
        assert len(model.workers_) == 1 and model.n_seen_ == 400
        writer.waiting, model.add_worker = 1000, _no_cpu  # the model continues with the workers that it has
        assert event_loops.run(scale_once(served, scaler)) == 0 and len(model.workers_) == 1
    served.in_shards = False
    assert event_loops.run(scale_once(served, scaler)) == 0
    with ShardedModel(LEARNER, shards=4, workers=1) as model:
        for part, (start, stop) in zip(margins, ((0, 200), (200, 400)), strict=True):
            again = model.predict_then_learn(X[start:stop], y[start:stop], tasks=tasks[start:stop])
            assert (part == again).all()


def _no_cpu():
    raise WorkerError("no CPU")


def test_bounds_that_contradict_each_other_are_rejected(tmp_path):
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    from budgetron.service.settings import ServiceSettings

    with pytest.raises(InputError, match="--max-workers must be at least --workers, 4"):
        ServiceSettings(tmp_path, workers=4, max_workers=2).checked()
