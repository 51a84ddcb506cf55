"""Labels that come later, for predictions that were remembered.

    in time          learned as if it had come with its example, and noted
    again, the same  `repeated`, with the first answer; nothing is learned
    again, another   `conflict` (409): the first label stands
    unknown          `unknown` (404): never given out, or older than the latest 100,000 predictions
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from budgetron.durable import KeyReused
from budgetron.errors import refusal, refuse
from budgetron.service.exchange import Exchange
from budgetron.service.learning import request_of
from budgetron.service.pending import KEY, Waiting
from budgetron.service.problems import Refused, refused_of
from budgetron.service.wire import FeedbackAnswer, FeedbackAnswers, LabelledExample, Verdict, encode, feedback_request

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

_STATUS = {"unknown": 404, "conflict": 409, "refused": 422}


async def feedback(hosted: Hosted, exchange: Exchange) -> None:
    """POST feedback: one label, or many."""
    given = feedback_request.decode(await exchange.body())
    if given.feedback is UNSET:
        if given.id is UNSET or given.label is UNSET:
            raise refuse("feedback", "the body", 'one with "id" and "label", or with "feedback"', "neither")
        answer = await _one(hosted, Verdict(given.id, given.label))
        if answer.status in _STATUS:
            raise Refused(_STATUS[answer.status], answer.status, answer.message or "")
        await exchange.reply(encode(answer))
        return
    if given.id is not UNSET or given.label is not UNSET:
        raise refuse("feedback", "the body", 'one with "id" and "label", or with "feedback"', "both")
    if not 1 <= len(given.feedback) <= exchange.limits.examples:
        raise refuse("feedback", "feedback", f"1 to {exchange.limits.examples} labels", str(len(given.feedback)))
    exchange.pay(len(given.feedback))
    answers = await asyncio.gather(*(_one(hosted, verdict) for verdict in given.feedback))
    await exchange.reply(encode(FeedbackAnswers(list(answers))))


async def _one(hosted: Hosted, verdict: Verdict) -> FeedbackAnswer:
    waiting = hosted.pending.get(verdict.id)
    if waiting is None:
        message = refusal("feedback", "id", "that of one of the latest predictions that were remembered",
                          repr(verdict.id), 'Predict with "remember": true to get one.')  # fmt: skip
        return FeedbackAnswer(verdict.id, "unknown", message=message)
    if waiting.labelled:
        return _again(verdict, waiting)
    try:
        request = request_of(hosted, [LabelledExample(waiting.features, verdict.label, waiting.task)], KEY + verdict.id)
        learned = await hosted.writer.submit(request, 1)
    except KeyReused:
        return _conflict(verdict)
    except Exception as error:
        refused = refused_of(error)
        if refused is None or refused.status != 422:
            raise
        return FeedbackAnswer(verdict.id, "refused", message=refused.message)
    margin = learned.margins[0].tolist()
    hosted.pending.labelled(verdict.id, verdict.label, learned.position, margin)
    return FeedbackAnswer(verdict.id, "repeated" if learned.repeated else "learned", learned.position, margin)


def _again(verdict: Verdict, waiting: Waiting) -> FeedbackAnswer:
    if waiting.label is not None and not _same(waiting.label, verdict.label):
        return _conflict(verdict)
    return FeedbackAnswer(verdict.id, "repeated", waiting.position, waiting.margin)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _conflict(verdict: Verdict) -> FeedbackAnswer:
    message = refusal("feedback", "label", "the one that came first for this id", repr(verdict.label)[:80],
                      "The first label was learned, and stands.")  # fmt: skip
    return FeedbackAnswer(verdict.id, "conflict", message=message)
