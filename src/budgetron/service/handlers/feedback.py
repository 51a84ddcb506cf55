"""POST feedback: labels of earlier predictions that the service remembers.

    the first label    learned like an example of POST learn
    the same again     `repeated`, with the first answer; nothing is learned
    another label      `conflict` (409), and the first label stays; with "correct": true, the new label replaces it
    "withdraw": true   the model is rebuilt without the example. A second withdrawal changes nothing. A label after a
                       withdrawal is a `conflict` (409)
    an invalid label   `refused` (422)
    an unknown id      `unknown` (404): never issued, evicted, or forgotten with its task (see `service.model.pending`)

The number in parentheses is the HTTP status for a request with one label. In a request with several labels, each label
has an answer of its own instead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from starlette.responses import Response

from budgetron.durable import KeyReused
from budgetron.durable.corrections import is_same_label
from budgetron.errors import error_message, input_error
from budgetron.service.handlers.correcting import apply_correction
from budgetron.service.handlers.learning import request_of
from budgetron.service.http.problems import HTTPProblem, problem_of
from budgetron.service.http.wire import (
    FeedbackAnswer,
    FeedbackAnswers,
    FeedbackRequest,
    LabelledExample,
    Verdict,
    encode,
    feedback_request,
    fields_given,
    reply,
)
from budgetron.service.model.pending import KEY_PREFIX, PendingPrediction

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.served_model import ServedModel

# Stored in place of a withdrawn label. It cannot be mistaken for a label, because no label is a JSON object.
WITHDRAWN = {"withdrawn": True}
_WITHDRAWN_MESSAGE = "feedback: the label was withdrawn. Send the example with its correct label to POST learn."
_STATUS = {"unknown": 404, "conflict": 409, "refused": 422}


async def feedback(call: Call) -> Response:
    request = feedback_request.decode(await call.body())
    if request.feedback is UNSET:
        return reply(encode(await _one_label(call, request)))
    if beside := fields_given(request, "id", "label", "correct", "withdraw"):
        accepted = 'an object with "id" and "label", or with "feedback"'
        remedy = 'Entries of "feedback" have "id" and "label". Send a correction or withdrawal by itself.'
        raise input_error("feedback", "the body", accepted, f'{beside} beside "feedback"', remedy)
    if not 1 <= len(request.feedback) <= call.limits.examples:
        raise input_error("feedback", '"feedback"', f"1 to {call.limits.examples} labels", str(len(request.feedback)))
    call.charge(len(request.feedback))
    answers = await asyncio.gather(*(_learn(call.model, verdict) for verdict in request.feedback))
    return reply(encode(FeedbackAnswers(list(answers))))


async def _one_label(call: Call, request: FeedbackRequest) -> FeedbackAnswer:
    """Learn, correct or withdraw the label of one prediction. Errors are raised instead of being part of the answer."""
    if request.id is UNSET or (request.label is UNSET) != (request.withdraw is True):
        accepted = 'an object with "id" and "label", with "id" and "withdraw", or with "feedback"'
        raise input_error("feedback", "the body", accepted, "none of these")
    if request.correct is True or request.withdraw is True:
        answer = await _change(call, request.id, request.label)
        if answer is not None:
            return answer
    assert request.label is not UNSET  # only a withdrawal has no label, and `_change` has answered it
    answer = await _learn(call.model, Verdict(request.id, request.label))
    if answer.status in _STATUS:
        raise HTTPProblem(_STATUS[answer.status], answer.status, answer.message or "")
    return answer


async def _change(call: Call, prediction_id: str, label: Any) -> FeedbackAnswer | None:
    """Correct or withdraw the label of a prediction. Returns None if there is no earlier label to correct."""
    model = call.model
    pending = model.pending.get(prediction_id)
    withdraw = label is UNSET
    if pending is None or not pending.labelled or pending.position is None:
        if pending is not None and withdraw:
            raise HTTPProblem(409, "conflict", f"feedback: the prediction {prediction_id!r} has no label to withdraw.")
        if withdraw:
            message = f'feedback: "id" must be the id of a remembered prediction; got {prediction_id!r}.'
            raise HTTPProblem(404, "unknown", message)
        return None
    if pending.label == WITHDRAWN:
        if withdraw:  # a retry
            return FeedbackAnswer(prediction_id, "withdrawn", pending.position, pending.margin)
        raise HTTPProblem(409, "conflict", _WITHDRAWN_MESSAGE)
    if not withdraw and pending.label is not None and is_same_label(pending.label, label):
        return FeedbackAnswer(prediction_id, "repeated", pending.position, pending.margin)
    new_label = None if withdraw else label
    async with call.record_action("POST feedback", model.name):
        corrected = await apply_correction(call, pending.position, None, new_label, withdraw, "feedback")
    model.pending.set_label(prediction_id, WITHDRAWN if withdraw else label, pending.position, pending.margin)
    status = "withdrawn" if withdraw else "corrected"
    return FeedbackAnswer(prediction_id, status, corrected.correction.position, pending.margin)


async def _learn(model: ServedModel, verdict: Verdict) -> FeedbackAnswer:
    pending = model.pending.get(verdict.id)
    if pending is None:
        message = error_message("feedback", '"id"', "the id of one of the latest remembered predictions",
                                repr(verdict.id), 'Predict with "remember": true to get an id.')  # fmt: skip
        return FeedbackAnswer(verdict.id, "unknown", message=message)
    if pending.labelled:
        return _answer_again(verdict, pending)
    try:
        example = LabelledExample(pending.features, verdict.label, pending.task, offset=pending.offset)
        learned = await model.writer.submit(request_of(model, [example], KEY_PREFIX + verdict.id), 1)
    except KeyReused:
        return _conflict(verdict)
    except Exception as error:
        problem = problem_of(error)
        if problem is None or problem.status != 422:
            raise
        return FeedbackAnswer(verdict.id, "refused", message=problem.message)
    margin = learned.margins[0].tolist()
    model.pending.set_label(verdict.id, verdict.label, learned.position, margin)
    return FeedbackAnswer(verdict.id, "repeated" if learned.repeated else "learned", learned.position, margin)


def _answer_again(verdict: Verdict, pending: PendingPrediction) -> FeedbackAnswer:
    if pending.label == WITHDRAWN:
        return FeedbackAnswer(verdict.id, "conflict", message=_WITHDRAWN_MESSAGE)
    if pending.label is not None and not is_same_label(pending.label, verdict.label):
        return _conflict(verdict)
    return FeedbackAnswer(verdict.id, "repeated", pending.position, pending.margin)


def _conflict(verdict: Verdict) -> FeedbackAnswer:
    label = repr(verdict.label)[:80]
    message = f'feedback: this prediction already has a label other than {label}. Add "correct": true to replace it.'
    return FeedbackAnswer(verdict.id, "conflict", message=message)
