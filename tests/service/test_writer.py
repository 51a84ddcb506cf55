"""The writer: no exception ends it, and every request is answered. A restore changes model and statistics together."""

from __future__ import annotations

import asyncio
import threading

import event_loops
import httpx
import numpy as np
import pytest
from running import running, until

import budgetron
from budgetron.durable import Request
from budgetron.service.http.app import create_app
from budgetron.service.lifecycle import Service
from budgetron.service.model.writer import WriterEnded
from budgetron.service.settings import ServiceSettings

SECONDS = 300  # if a test takes longer, one of its requests was never answered


def trained_model(classes):
    """A model with this number of classes."""
    model = budgetron.RandomBudgetPerceptron(budget=20)
    rng = np.random.default_rng(0)
    model.partial_fit(rng.normal(size=(60, 2)), np.arange(60) % classes, tasks=["ann"] * 60)
    return model


@pytest.fixture
def contents(tmp_path):
    """The model files of a two-class and a three-class model."""
    files = []
    for classes in (2, 3):
        trained_model(classes).save(tmp_path / f"{classes}.budgetron")
        files.append((tmp_path / f"{classes}.budgetron").read_bytes())
    return files


def run_with_service(tmp_path, test):
    """Call `test(service, model, client)` with a service on an event loop in this process; model is a `ServedModel`."""

    async def main():
        service = Service(ServiceSettings(tmp_path / "data"), {"default": lambda: trained_model(2)})
        service.start()
        await service.open()
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            async with asyncio.timeout(SECONDS):
                await test(service, service.models["default"], client)
        await service.close()

    event_loops.run(main())


def test_a_failed_periodic_task_does_not_prevent_closing(tmp_path):
    async def fail():
        raise ValueError

    async def test(service, model, client):
        service._tasks.insert(0, asyncio.create_task(fail()))
        await asyncio.sleep(0)  # let it fail

    run_with_service(tmp_path, test)
    # The directory was released, so another host can open it.
    budgetron.durable.Host.open(tmp_path / "data" / "default", lambda: trained_model(2)).close()


def example(label=1):
    return Request([[0.5, 0.1]], [label], ["ann"])


def test_statistics_of_another_model_do_not_end_the_writer(tmp_path, contents):
    """The statistics are of a model with another number of classes, as if labels came in the middle of a restore."""

    async def test(service, model, client):
        for turn in range(4):
            for label in (0, 1):
                answer = await model.writer.submit(example(label), 1)
                assert answer.margins.shape == ((1, 3) if turn % 2 else (1,))
            # Restored directly, not through the service, so that the statistics are not replaced.
            model.host.restore(contents[(turn + 1) % 2])
        assert model.writer._thread.is_alive() and model.writer.waiting == 0

    run_with_service(tmp_path, test)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), MemoryError(), SystemExit(), KeyboardInterrupt()], ids=repr)
def test_every_exception_becomes_a_response_and_the_writer_continues(tmp_path, monkeypatch, error):
    def failing(*_):
        raise error

    async def test(service, model, client):
        monkeypatch.setattr(model.host, "learn_many", failing)
        futures = [model.writer.submit(example(), 1) for _ in range(5)]
        answers = await asyncio.gather(*futures, return_exceptions=True)
        expected = type(error) if isinstance(error, Exception) else WriterEnded
        assert all(isinstance(answer, expected) for answer in answers)
        monkeypatch.undo()
        monkeypatch.setattr(model.statistics, "learned", failing if isinstance(error, Exception) else lambda *_: None)
        assert (await model.writer.submit(example(), 1)).position
        assert model.writer.alive and model.writer.waiting == 0

    run_with_service(tmp_path, test)


def test_a_service_whose_writer_has_ended_is_not_ready_and_restarts_it(tmp_path, monkeypatch):
    async def not_now(*_):
        await asyncio.Event().wait()

    # Otherwise the service would restart the writer before the checks below.
    monkeypatch.setattr(Service, "_restart_ended_writers", not_now)

    async def test(service, model, client):
        writer, thread = model.writer, model.writer._thread

        async def ready():
            service._ready_until = 0.0  # check now, even if the last check was a moment ago
            return await client.get("/readyz")

        assert (await ready()).status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(writer, "_take", list)  # the queue returns nothing, so the thread ends
            await writer.submit(example(), 1)  # is still learned, because the thread waits in the old `_take`
            await asyncio.to_thread(thread.join)
        lost = writer._loop.create_future()
        writer._taken = [type("Item", (), {"future": lost, "n": 0})()]  # the requests that the thread had when it ended
        assert not writer.alive
        answer = await ready()
        assert answer.status_code == 503 and answer.json()["failing"] == ["default"]
        assert answer.json()["reasons"]["default"].startswith("writer: the writer thread had ended")
        assert writer.alive and writer.restarts == 1
        with pytest.raises(WriterEnded, match="Send them again"):
            await lost
        assert (await writer.submit(example(), 1)).position
        assert (await ready()).status_code == 200
        assert b'budgetron_writer_restarts{model="default"} 1.0' in (await client.get("/metrics")).content

    run_with_service(tmp_path, test)


def test_a_request_to_a_writer_that_has_ended_is_answered(tmp_path, monkeypatch):
    async def test(service, model, client):
        writer, thread = model.writer, model.writer._thread
        monkeypatch.setattr(writer, "_take", list)  # the queue returns nothing, so the thread ends
        await writer.submit(example(), 1)
        await asyncio.to_thread(thread.join)
        monkeypatch.undo()
        answer = await client.post("/v1/learn", json={"features": [0.5, 0.1], "label": 1, "task": "ann"})
        assert answer.status_code == 200 and writer.restarts == 1

    run_with_service(tmp_path, test)


def test_model_and_statistics_change_in_one_step(tmp_path, contents, monkeypatch):
    """During a restore a reader sees the old model with its statistics, or the new model without statistics."""

    async def test(service, model, client):
        for label in (0, 1, 0, 1):
            await model.writer.submit(example(label), 1)
        old = model.state()
        assert old["overall"]["n"] == 4
        states, has_read = [], threading.Event()
        replacing = model.statistics.replacing

        def watched():
            reader = threading.Thread(target=lambda: (states.append(model.state()), has_read.set()))
            reader.start()
            return replacing()

        monkeypatch.setattr(model.statistics, "replacing", watched)
        put = await client.put("/v1/snapshot", content=contents[1])
        assert put.status_code == 200
        await asyncio.to_thread(has_read.wait, SECONDS)
        new = model.state()
        assert new["overall"] is None and new["memory_bytes"] != old["memory_bytes"]  # three classes instead of two
        (seen,) = states
        assert seen["memory_bytes"] == (new if seen["overall"] is None else old)["memory_bytes"]

    run_with_service(tmp_path, test)


def test_the_answer_to_a_replacement_names_its_own_record(tmp_path, contents, monkeypatch):
    """A label that is learned right after the replacement does not change the answer."""

    async def test(service, model, client):
        assert (await client.put("/v1/versions/two", content=contents[0])).status_code == 200
        call, positions = model.writer.call, []

        def call_and_learn(action):
            positions.append(model.host.position)
            future = call(action)
            model.writer.submit(example(), 1)
            until(lambda: model.host.position == positions[-1] + 2, SECONDS)
            return future

        monkeypatch.setattr(model.writer, "call", call_and_learn)
        answers = [
            await client.put("/v1/snapshot", content=contents[0]),
            await client.post("/v1/versions/two"),
            await client.post("/v1/rollback"),
        ]
        assert [answer.json()["position"] for answer in answers] == [position + 1 for position in positions]

    run_with_service(tmp_path, test)


def test_labels_that_were_sent_before_a_task_is_forgotten_are_forgotten_too(tmp_path):
    async def test(service, model, client):
        may_continue = threading.Event()
        waiting = model.writer.call(lambda: may_continue.wait(SECONDS))
        until(lambda: model.writer._queue.qsize() == 0, SECONDS)  # the thread has taken this action
        learning = model.writer.submit(Request([[9.0, 9.0]] * 5, [0, 1, 0, 1, 0], ["eve"] * 5), 5)
        forgetting = asyncio.create_task(client.delete("/v1/tasks/eve"))
        while not forgetting.done() and model.writer._queue.qsize() < 2:
            await asyncio.sleep(0.001)
        may_continue.set()
        await asyncio.gather(waiting, learning, forgetting)
        assert forgetting.result().json()["position"] == learning.result().position + 1
        assert "eve" not in model.hosted.model.budget_share_

    run_with_service(tmp_path, test)


def test_the_label_of_a_remembered_prediction_is_refused_while_its_task_is_forgotten(tmp_path):
    async def test(service, model, client):
        prediction = {"features": [9.0, 9.0], "task": "eve", "remember": True}
        prediction_id = (await client.post("/v1/predict", json=prediction)).json()["id"]
        may_continue = threading.Event()
        waiting = model.writer.call(lambda: may_continue.wait(SECONDS))
        until(lambda: model.writer._queue.qsize() == 0, SECONDS)  # the thread has taken this action
        forgetting = asyncio.create_task(client.delete("/v1/tasks/eve"))
        while not forgetting.done() and not model.writer._queue.qsize():
            await asyncio.sleep(0.001)
        label = asyncio.create_task(client.post("/v1/feedback", json={"id": prediction_id, "label": 1}))
        while not label.done() and model.writer._queue.qsize() < 2:
            await asyncio.sleep(0.001)
        may_continue.set()
        await asyncio.gather(waiting, forgetting, label)
        assert label.result().status_code == 404 and forgetting.result().status_code == 200
        assert "eve" not in model.hosted.model.budget_share_

    run_with_service(tmp_path, test)


def test_labels_while_models_of_two_and_three_classes_are_restored_in_turn(tmp_path, contents):
    with running(tmp_path / "data", str(tmp_path / "2.budgetron")) as service:
        stop, errors, counts = threading.Event(), [], [0, 0, 0]

        def send(number):
            with service.client() as client:
                while not stop.is_set():
                    examples = [{"features": [0.1 * i, 1.0], "label": i % 3, "task": "ann"} for i in range(number + 1)]
                    try:
                        answer = client.post("/v1/learn", json={"examples": examples})
                    except httpx.HTTPError as error:
                        errors.append(error)
                        return
                    if answer.status_code not in (200, 422):  # label 2 is unknown to the model of two classes
                        errors.append(answer.text)
                        return
                    counts[number] += 1

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            with service.client() as client:
                for turn in range(60):
                    assert client.put("/v1/snapshot", content=contents[turn % 2]).status_code == 200
                    floor = min(counts)
                    until(lambda floor=floor: errors or min(counts) > floor, SECONDS)
                    assert not errors
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        with service.client() as client:
            assert client.get("/readyz").status_code == 200
            assert client.post("/v1/learn", json={"features": [1.0, 2.0], "label": 1, "task": "ann"}).status_code == 200
        assert not service.events("fault")
