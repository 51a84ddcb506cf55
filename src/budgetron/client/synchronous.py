"""`Client`: one call, one answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.client import calls
from budgetron.client.answers import Answered, Prediction, error_of
from budgetron.client.calls import BATCH, Call, Settings
from budgetron.client.tries import Tries
from budgetron.persist import replace_file


class Client:
    """A running `budgetron serve`, as Python objects.

    Parameters
    ----------
    url : str
        Where it listens, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        The API key, where the service has keys.
    model : str, default="default"
        Which of its models.
    timeout : float, default=30.0
        Seconds to wait for an answer.
    retries : int, default=6
        How often a call is sent again when no answer came, or the service was busy; the waits between them double.
        Labels go under a key of their own, so that none is learned twice.
    """

    def __init__(
        self, url: str, key: str | None = None, model: str = "default", *, timeout: float = 30.0, retries: int = 6
    ) -> None:
        self._settings = Settings(url, key, model, timeout, retries)
        httpx = calls.http()
        self._lost = httpx.TransportError
        self._http = httpx.Client(base_url=url, headers=self._settings.headers, timeout=timeout, trust_env=False)

    # ---- predicting and learning

    def predict(self, features: Any, task: Any = None, *, remember: bool = False) -> Prediction:
        """Predict one example: a row of numbers, a sparse row, or a dict. With `remember` it gets an `id`."""
        prediction: Prediction = self._call(calls.predict(self._settings, features, task, remember))
        return prediction

    def predict_many(
        self, X: Any, tasks: Any = None, *, remember: bool = False, batch: int = BATCH
    ) -> list[Prediction]:
        """Predict many examples, so many a request."""
        found: list[Prediction] = []
        for examples in calls.batches(X, None, tasks, batch):
            found += self._call(calls.predict_many(self._settings, examples, remember)).predictions
        return found

    def learn(
        self, features: Any, label: Any, task: Any = None, *, key: str | None = None, classes: Any = None
    ) -> Answered:
        """Learn one example. It is on disk when this returns."""
        examples = next(calls.batches([features], [label], None if task is None else [task], 1))
        answered: Answered = self._call(calls.learn_many(self._settings, examples, key, classes))
        return answered

    def learn_many(
        self, X: Any, y: Any, tasks: Any = None, *, classes: Any = None, batch: int = BATCH
    ) -> NDArray[np.float64]:
        """Learn many examples in order, so many a request; the margins before learning.

        X, y and tasks may be endless: a batch is sent when it is full, and none is held that was answered. A refusal
        ends it; what was sent before is learned.
        """
        margins: list[Any] = []
        for examples in calls.batches(X, y, tasks, batch):
            margins += self._call(calls.learn_many(self._settings, examples, None, classes)).margins
        return np.array(margins, dtype=np.float64)

    def feedback(self, id: str, label: Any) -> dict[str, Any]:
        """The label of an earlier prediction, by its id."""
        answer: dict[str, Any] = self._call(calls.feedback(self._settings, id, label))
        return answer

    # ---- looking

    def model(self) -> dict[str, Any]:
        """The model's settings, and what it holds."""
        return self._look("model")

    def task(self, task: Any) -> dict[str, Any]:
        """One task: how well it was predicted, and what is stored for it."""
        return self._look(calls.task_path(task))

    def live(self) -> dict[str, Any]:
        """What the live page shows."""
        return self._look("live")

    def events(self) -> Iterator[dict[str, Any]]:
        """The same once a second, for ever."""
        with self._http.stream("GET", self._settings.path("events")) as answer:
            if answer.status_code != 200:
                raise error_of(answer.status_code, answer.read())
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield msgspec.json.decode(line[6:])

    # ---- administration

    def forget(self, task: Any) -> int:
        """Remove what the model keeps of a task; the number of the record."""
        call = Call("DELETE", self._settings.path(calls.task_path(task)), answer=dict[str, int])
        return int(self._call(call)["position"])

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Save the model file, as of now."""
        replace_file(path, self._call(Call("GET", self._settings.path("snapshot"))))

    def restore(self, path: str | os.PathLike[str]) -> int:
        """Put the model of a model file in this one's place; the number of the record."""
        call = Call("PUT", self._settings.path("snapshot"), content=Path(path).read_bytes(), answer=dict[str, int])
        return int(self._call(call)["position"])

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Save the whole state, log and keys included; `host.sqlite` of another directory opens from it."""
        replace_file(path, self._call(Call("GET", self._settings.path("backup"))))

    # ---- the wire

    def _look(self, rest: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._call(calls.look(self._settings, rest))
        return answer

    def _call(self, call: Call) -> Any:
        tries = Tries(self._settings, call)
        for wait in tries:
            time.sleep(wait)
            try:
                tries.heard(self._http.request(**tries.request))
            except self._lost as error:
                tries.lost(error)
        return tries.answer

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
