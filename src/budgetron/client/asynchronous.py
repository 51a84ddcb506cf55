"""`AsyncClient`: the same calls, awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
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


class AsyncClient:
    """A running `budgetron serve` on an event loop; parameters and methods as those of `Client`."""

    def __init__(
        self, url: str, key: str | None = None, model: str = "default", *, timeout: float = 30.0, retries: int = 6
    ) -> None:
        self._settings = Settings(url, key, model, timeout, retries)
        httpx = calls.http()
        self._lost = httpx.TransportError
        self._http = httpx.AsyncClient(base_url=url, headers=self._settings.headers, timeout=timeout, trust_env=False)

    # ---- predicting and learning

    async def predict(self, features: Any, task: Any = None, *, remember: bool = False) -> Prediction:
        """Predict one example."""
        prediction: Prediction = await self._call(calls.predict(self._settings, features, task, remember))
        return prediction

    async def predict_many(
        self, X: Any, tasks: Any = None, *, remember: bool = False, batch: int = BATCH
    ) -> list[Prediction]:
        """Predict many examples, so many a request."""
        found: list[Prediction] = []
        for examples in calls.batches(X, None, tasks, batch):
            found += (await self._call(calls.predict_many(self._settings, examples, remember))).predictions
        return found

    async def learn(
        self, features: Any, label: Any, task: Any = None, *, key: str | None = None, classes: Any = None
    ) -> Answered:
        """Learn one example. It is on disk when this returns."""
        examples = next(calls.batches([features], [label], None if task is None else [task], 1))
        answered: Answered = await self._call(calls.learn_many(self._settings, examples, key, classes))
        return answered

    async def learn_many(
        self, X: Any, y: Any, tasks: Any = None, *, classes: Any = None, batch: int = BATCH
    ) -> NDArray[np.float64]:
        """Learn many examples in order, so many a request; the margins before learning."""
        margins: list[Any] = []
        for examples in calls.batches(X, y, tasks, batch):
            margins += (await self._call(calls.learn_many(self._settings, examples, None, classes))).margins
        return np.array(margins, dtype=np.float64)

    async def feedback(self, id: str, label: Any) -> dict[str, Any]:
        """The label of an earlier prediction, by its id."""
        answer: dict[str, Any] = await self._call(calls.feedback(self._settings, id, label))
        return answer

    # ---- looking

    async def model(self) -> dict[str, Any]:
        """The model's settings, and what it holds."""
        return await self._look("model")

    async def task(self, task: Any) -> dict[str, Any]:
        """One task."""
        return await self._look(calls.task_path(task))

    async def live(self) -> dict[str, Any]:
        """What the live page shows."""
        return await self._look("live")

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The same once a second, for ever."""
        async with self._http.stream("GET", self._settings.path("events")) as answer:
            if answer.status_code != 200:
                raise error_of(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield msgspec.json.decode(line[6:])

    # ---- administration

    async def forget(self, task: Any) -> int:
        """Remove what the model keeps of a task; the number of the record."""
        call = Call("DELETE", self._settings.path(calls.task_path(task)), answer=dict[str, int])
        return int((await self._call(call))["position"])

    async def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Save the model file, as of now."""
        replace_file(path, await self._call(Call("GET", self._settings.path("snapshot"))))

    async def restore(self, path: str | os.PathLike[str]) -> int:
        """Put the model of a model file in this one's place; the number of the record."""
        call = Call("PUT", self._settings.path("snapshot"), content=Path(path).read_bytes(), answer=dict[str, int])
        return int((await self._call(call))["position"])

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Save the whole state, log and keys included."""
        replace_file(path, await self._call(Call("GET", self._settings.path("backup"))))

    # ---- the wire

    async def _look(self, rest: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self._call(calls.look(self._settings, rest))
        return answer

    async def _call(self, call: Call) -> Any:
        tries = Tries(self._settings, call)
        for wait in tries:
            await asyncio.sleep(wait)
            try:
                tries.heard(await self._http.request(**tries.request))
            except self._lost as error:
                tries.lost(error)
        return tries.answer

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
