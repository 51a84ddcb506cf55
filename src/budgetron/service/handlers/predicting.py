"""POST predict and GET queue.

Single predictions that arrive in the same iteration of the event loop are computed together, in few calls of the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET, convert
from numpy.typing import NDArray
from starlette.responses import Response

from budgetron.decisions import ASK
from budgetron.durable import HostedModel, ModelHost
from budgetron.errors import InputError, input_error
from budgetron.learners.asking import lead_of
from budgetron.learners.estimators.budgetron import probabilities
from budgetron.learners.input.classes import label_text
from budgetron.service.handlers.features import feature_warning, offsets_of, rows_of, tasks_of
from budgetron.service.handlers.learning import DIVIDE
from budgetron.service.http.wire import (
    Example,
    Prediction,
    Predictions,
    PredictRequest,
    QueueAnswer,
    QueueItem,
    Reasons,
    encode,
    fields_given,
    predict_request,
    reply,
)
from budgetron.service.model.writer import Writer
from budgetron.service.settings import Limits

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.model_versions import ModelVersions

_ACCEPTED = 'an object with "features", or with "examples"'
_MAX_QUEUE_SHOWN = 100  # predictions of the labelling queue that a response lists
_MAX_TERMS = 50  # terms of an explanation; the others are added up
# Rows per call on the event loop: handing so few to a thread would take longer. `many` passes more rows to a thread.
_MAX_ON_LOOP = 64
_pool = ThreadPoolExecutor(2, thread_name_prefix="predict")
_Waiting = tuple[Any, Any, Any, "asyncio.Future[Prediction]"]  # features, task, offset, and the future prediction


class Predictor:
    """Predictions of one model."""

    def __init__(self, host: ModelHost, writer: Writer, limits: Limits, versions: ModelVersions) -> None:
        self._host, self._writer, self._limits, self._versions = host, writer, limits, versions
        self._waiting: list[_Waiting] = []
        self._loop = asyncio.get_running_loop()

    def one(self, features: Any, task: Any, offset: Any = UNSET) -> asyncio.Future[Prediction]:
        """Queue one prediction. Predictions queued in the same iteration of the event loop are computed together."""
        future: asyncio.Future[Prediction] = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append((features, task, offset, future))
        return future

    async def many(self, examples: Sequence[Example]) -> list[Prediction]:
        """Compute several predictions: in a thread, unless they are few and would not block the event loop."""
        columns = [[getattr(example, name) for example in examples] for name in ("features", "task", "offset")]
        if not self._may_use_loop or len(examples) > _MAX_ON_LOOP:
            return await self._loop.run_in_executor(_pool, lambda: self._compute(*columns))
        return self._compute(*columns)

    async def reasons(self, examples: Sequence[Example]) -> list[Reasons]:
        """The reasons for several predictions, computed with the model as it is now."""
        return await self._loop.run_in_executor(_pool, self._explain, examples)

    def _explain(self, examples: Sequence[Example]) -> list[Reasons]:
        return [self._explain_one(example) for example in examples]

    def _explain_one(self, example: Example) -> Reasons:
        """Explain with the model that predicts for the task: the candidate or the model in use, as in `_compute`."""
        candidate = self._versions.candidate
        if candidate is not None and candidate.answers(example.task):
            try:
                return self._explain_with(candidate.hosted, example)
            except InputError as error:
                candidate.reason = str(error)
        return self._explain_with(self._host.hosted_model, example)

    def _explain_with(self, hosted: HostedModel, example: Example) -> Reasons:
        limits = self._limits
        tasks, offsets = tasks_of([example.task], limits), offsets_of([example.offset])
        task, offset = (None if values is None else values[0] for values in (tasks, offsets))
        explanation = hosted.explain(rows_of(hosted, [example.features], limits), task, offset)
        return convert(explanation.to_dict(_MAX_TERMS), Reasons)

    @property
    def _may_use_loop(self) -> bool:
        """Whether a few rows may be computed on the event loop, because no lock and no shard would block the loop."""
        return not (self._writer.busy or self._host.in_shards)

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if self._may_use_loop:
            for start in range(0, len(batch), _MAX_ON_LOOP):
                part = batch[start : start + _MAX_ON_LOOP]
                self._answer(part, self._compute_or_reject(part))
            return
        work = self._loop.run_in_executor(_pool, self._compute_or_reject, batch)
        work.add_done_callback(lambda done: self._answer(batch, done.result()))

    def _compute_or_reject(self, batch: list[_Waiting]) -> list[Prediction | Exception]:
        """Compute all examples together. If this fails, compute each by itself, so that only invalid ones fail."""
        try:
            features, tasks, offsets, _ = map(list, zip(*batch, strict=True))
            if None in tasks and len(set(tasks)) > 1:
                raise ValueError  # one call of the model cannot mix rows with and without a task
            return list(self._compute(features, tasks, offsets))
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [self._compute_or_reject([example])[0] for example in batch]

    def _answer(self, batch: list[_Waiting], answers: Sequence[Prediction | Exception]) -> None:
        for (*_, future), answer in zip(batch, answers, strict=True):
            if future.done():  # cancelled, because the client has disconnected
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _compute(self, features: Sequence[Any], tasks: Sequence[Any], offsets: Sequence[Any]) -> list[Prediction]:
        """Predictions by the model in use, or by the candidate for the tasks that it answers."""
        candidate = self._versions.candidate
        chosen = [] if candidate is None else [n for n, task in enumerate(tasks) if candidate.answers(task)]
        columns = (features, tasks, offsets)
        if candidate is None or not chosen:
            return self._compute_with(self._host.hosted_model, *columns)
        try:
            answers = self._compute_with(candidate.hosted, *([column[n] for n in chosen] for column in columns))
        except InputError as error:  # such as features of a form that only the model in use takes
            candidate.reason = str(error)
            return self._compute_with(self._host.hosted_model, *columns)
        for answer in answers:
            answer.version = candidate.version
        by_index = dict(zip(chosen, answers, strict=True))
        others = [n for n in range(len(tasks)) if n not in by_index]
        if others:
            rest = self._compute_with(self._host.hosted_model, *([column[n] for n in others] for column in columns))
            by_index |= zip(others, rest, strict=True)
        return [by_index[n] for n in range(len(tasks))]

    def _compute_with(
        self, hosted: HostedModel, features: Sequence[Any], tasks: Sequence[Any], offsets: Sequence[Any]
    ) -> list[Prediction]:
        limits = self._limits
        X = hosted.rows(rows_of(hosted, features, limits))
        named, scores = tasks_of(tasks, limits), offsets_of(offsets)
        answers = predictions(hosted.model, hosted.model.decision_function(X, tasks=named, offset=scores))
        if hosted.columns is not None:
            for answer, row in zip(answers, features, strict=True):
                answer.warning = feature_warning(hosted, row)
        return answers


def predictions(model: Any, margins: NDArray[np.float64]) -> list[Prediction]:
    """Turn margins into predictions: label, margin, probabilities if the model has them, decisions if it decides."""
    classes = model.classes_.tolist()
    by_label: list[dict[str, float] | None] = [None] * len(margins)
    if hasattr(model, "predict_proba"):
        names = [label_text(label) for label in classes]
        by_label = [dict(zip(names, row, strict=True)) for row in probabilities(margins).tolist()]
    codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
    answers = [
        Prediction(classes[code], margin, label_probabilities)
        for code, margin, label_probabilities in zip(codes.tolist(), margins.tolist(), by_label, strict=True)
    ]
    point = getattr(model, "operating_point", None)
    if point is not None and point.labels is not None:
        for answer, code in zip(answers, point.decide_margins(margins).tolist(), strict=True):
            answer.decision, answer.abstain = (None, True) if code == ASK else (classes[code], False)
    return answers


def _stored_form(example: Example) -> tuple[Any, ...]:
    """The form in which `pending` stores an example. Without an offset, earlier versions of budgetron can read it."""
    fields = (example.features, example.task)
    return fields if example.offset is UNSET else (*fields, example.offset)


def _remember(call: Call, request: PredictRequest, examples: Sequence[Example], answers: list[Prediction]) -> None:
    """Store predictions that the client wants to label later, and queue those whose label is worth asking for.

    Each stored prediction gets an `id`, which the client sends with the label.
    """
    model = call.model
    # The lead of the predicted class over the next one; None if the label is not worth asking for.
    leads: list[float | None] = [None] * len(answers)
    if request.ask is not UNSET:
        n_labels = model.host.model.n_seen_
        for i, answer in enumerate(answers):
            lead = lead_of(answer.margin)
            answer.ask = model.asking.wants(lead, n_labels, request.ask)
            leads[i] = lead if answer.ask else None
    chosen = [i for i, lead in enumerate(leads) if request.remember is True or lead is not None]
    if not chosen:
        return
    rows = [_stored_form(examples[i]) for i in chosen]
    ids = model.pending.put(rows, call.api_key.name, [leads[i] for i in chosen])
    for i, prediction_id in zip(chosen, ids, strict=True):
        answers[i].id = prediction_id


async def queue(call: Call) -> Response:
    """At most 100 predictions whose labels are worth asking for, the least confident first."""
    queued, waiting = call.model.pending.queue(_MAX_QUEUE_SHOWN)
    return reply(encode(QueueAnswer([QueueItem(*item) for item in queued], waiting)))


async def predict(call: Call) -> Response:
    request = predict_request.decode(await call.body())
    if request.examples is UNSET:
        return reply(encode(await _predict_one(call, request)))
    return reply(encode(await _predict_several(call, request, request.examples)))


async def _predict_one(call: Call, request: PredictRequest) -> Prediction:
    if request.features is UNSET:
        raise input_error("predict", "the body", _ACCEPTED, "neither")
    model, example = call.model, Example(request.features, request.task, request.offset)
    prediction = await model.predictor.one(example.features, example.task, example.offset)
    model.statistics.n_predicted += 1
    if request.explain is True:
        prediction.reasons = (await model.predictor.reasons([example]))[0]
    _remember(call, request, [example], [prediction])
    return prediction


async def _predict_several(call: Call, request: PredictRequest, examples: list[Example]) -> Predictions:
    model = call.model
    if beside := fields_given(request, "features", "task", "offset"):
        raise input_error("predict", "the body", _ACCEPTED, f'{beside} beside "examples"', "Move it into each example.")
    if not 1 <= len(examples) <= call.limits.examples:
        accepted = f"1 to {call.limits.examples} examples"
        raise input_error("predict", '"examples"', accepted, str(len(examples)), DIVIDE if examples else "")
    call.charge(len(examples))
    answers = await model.predictor.many(examples)
    model.statistics.n_predicted += len(answers)
    if request.explain is True:
        call.charge(len(examples))
        all_reasons = await model.predictor.reasons(examples)
        for answer, reasons in zip(answers, all_reasons, strict=True):
            answer.reasons = reasons
    _remember(call, request, examples, answers)
    return Predictions(answers, model.host.position)
