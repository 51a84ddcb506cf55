"""Predictions. Single ones that arrive together are computed together: one pass through the model for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from budgetron.errors import refuse
from budgetron.learners.budgetron import probabilities
from budgetron.service.exchange import Exchange
from budgetron.service.features import rows_of, tasks_of
from budgetron.service.wire import Prediction, Predictions, encode, predict_request

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

_ON_THE_LOOP = 64  # rows that are computed at once without leaving the event loop
_pool = ThreadPoolExecutor(2, thread_name_prefix="predict")
_One = tuple[Any, Any, "asyncio.Future[Prediction]"]


class Predictor:
    """Predictions of one model."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._waiting: list[_One] = []
        self._loop = asyncio.get_running_loop()

    def one(self, features: Any, task: Any) -> asyncio.Future[Prediction]:
        """Joins whatever else this turn of the event loop brings."""
        future: asyncio.Future[Prediction] = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append((features, task, future))
        return future

    async def many(self, features: Sequence[Any], tasks: Sequence[Any]) -> list[Prediction]:
        """Not on the loop, unless they are few and nobody is learning."""
        if not self._at_once or len(features) > _ON_THE_LOOP:
            return await self._loop.run_in_executor(_pool, self._computed, features, tasks)
        return self._computed(features, tasks)

    @property
    def _at_once(self) -> bool:
        """Whether a few may be computed on the loop: nobody is learning, and no shard has to be asked."""
        return not (self._hosted.writer.busy or self._hosted.in_shards)

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if self._at_once:
            for start in range(0, len(batch), _ON_THE_LOOP):
                self._answer(batch[start : start + _ON_THE_LOOP], self._settled(batch[start : start + _ON_THE_LOOP]))
            return
        work = self._loop.run_in_executor(_pool, self._settled, batch)
        work.add_done_callback(lambda done: self._answer(batch, done.result()))

    def _settled(self, batch: list[_One]) -> list[Prediction | Exception]:
        """All at once; where one is refused each by itself, so that only that one is."""
        try:
            with_task = [task for _, task, _ in batch]
            if None in with_task and len(set(with_task)) > 1:
                raise ValueError  # strangers' requests need not agree
            return list(self._computed([features for features, _, _ in batch], with_task))
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [self._settled([one])[0] for one in batch]

    def _answer(self, batch: list[_One], answers: Sequence[Prediction | Exception]) -> None:
        for (_, _, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _computed(self, features: Sequence[Any], tasks: Sequence[Any]) -> list[Prediction]:
        kept, limits = self._hosted.kept, self._hosted.limits
        X = kept.rows(rows_of(kept, features, limits))
        return predictions(kept.model, kept.model.decision_function(X, tasks=tasks_of(tasks, limits)))


def predictions(model: Any, margins: NDArray[np.float64]) -> list[Prediction]:
    """Margins as answers."""
    classes = model.classes_.tolist()
    shown: list[dict[str, float] | None] = [None] * len(margins)
    if hasattr(model, "predict_proba"):
        names = [str(label) for label in classes]
        shown = [dict(zip(names, row, strict=True)) for row in probabilities(margins).tolist()]
    codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
    return [
        Prediction(classes[code], margin, chances)
        for code, margin, chances in zip(codes.tolist(), margins.tolist(), shown, strict=True)
    ]


async def predict(hosted: Hosted, exchange: Exchange) -> None:
    """POST predict: one example, or many."""
    request = predict_request.decode(await exchange.body())
    if request.examples is UNSET:
        if request.features is UNSET:
            raise refuse("predict", "the body", 'one with "features" or "examples"', "neither")
        answer = await hosted.predictor.one(request.features, request.task)
        hosted.watch.n_predicted += 1
        if request.remember:
            answer.id = hosted.pending.put([(request.features, request.task)])[0]
        await exchange.reply(encode(answer))
        return
    examples = request.examples
    if request.features is not UNSET or request.task is not None:
        raise refuse("predict", "the body", 'one with "features" or "examples"', "both")
    if not 1 <= len(examples) <= exchange.limits.examples:
        raise refuse("predict", "examples", f"1 to {exchange.limits.examples}", str(len(examples)))
    exchange.pay(len(examples))
    answers = await hosted.predictor.many([e.features for e in examples], [e.task for e in examples])
    hosted.watch.n_predicted += len(answers)
    if request.remember:
        for answer, name in zip(answers, hosted.pending.put([(e.features, e.task) for e in examples]), strict=True):
            answer.id = name
    await exchange.reply(encode(Predictions(answers, hosted.host.position)))
