"""POST corrections changes a label that is still in the log, or withdraws its example; GET lists the last corrections.

A correction runs in the writer thread, between two commits. It begins with the last snapshot before the corrected
record, or with a new model if there is none, and learns all later records again. Meanwhile, new labels wait, and
predictions use the old model.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from starlette.responses import Response

from budgetron.durable import CorrectionResult
from budgetron.errors import input_error
from budgetron.service.handlers.features import check_text
from budgetron.service.http.admin_wire import CorrectionAnswer, CorrectionsAnswer, correction_request
from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import encode, reply

if TYPE_CHECKING:
    from budgetron.service.http.call import Call

_MAX_SHOWN = 1000  # corrections in the answer to GET, newest first


async def correct(call: Call) -> Response:
    request = correction_request.decode(await call.body())
    model = call.model
    if (request.position is UNSET) == (request.key is UNSET):
        got = "both" if request.key is not UNSET else "neither"
        raise input_error("corrections", "the body", 'an object with either "position" or "key"', got)
    if (request.label is UNSET) == (request.withdraw is not True):
        got = "both" if request.label is not UNSET else "neither"
        raise input_error("corrections", "the body", 'an object with either "label" or "withdraw": true', got)
    position = request.position
    if request.key is not UNSET:
        record = await asyncio.to_thread(model.host.record_of, request.key)
        if record is None:
            accepted = "the idempotency key of a request to learn whose answer is still stored"
            message = f'corrections: "key" must be {accepted}; got {request.key[:80]!r}.'
            raise HTTPProblem(404, "unknown", message)
        position = record
    row = None if request.row is UNSET else request.row
    label = None if request.label is UNSET else request.label
    reason = "" if request.reason is UNSET else request.reason
    corrected = await apply_correction(call, position, row, label, request.withdraw is True, reason)
    return reply(encode(answer_of(corrected)))


async def apply_correction(
    call: Call, position: Any, row: int | None, label: Any, withdraw: bool, reason: str
) -> CorrectionResult:
    """Correct a label or withdraw its example, between two commits. POST feedback calls this, too.

    The audit log of the service records who did it, without labels. The old and the new label are in the list of
    corrections, which is stored with the model.
    """
    model, host, who = call.model, call.model.host, call.api_key.name
    check_text("label", label, model.limits)

    def change() -> CorrectionResult:
        if withdraw:
            return host.withdraw(position, row, who=who, reason=reason)
        return host.correct(position, label, row, who=who, reason=reason)

    corrected: CorrectionResult = await model.writer.call(change)
    made = corrected.correction
    call.details |= {
        "correction": made.number, "position": made.position, "row": made.row, "withdrawn": made.withdrawn,
        "replayed": corrected.replayed_examples, "seconds": round(corrected.seconds, 3),
    }  # fmt: skip
    return corrected


def answer_of(corrected: CorrectionResult) -> CorrectionAnswer:
    seconds = round(corrected.seconds, 6)
    return CorrectionAnswer(corrected.correction, corrected.replayed_examples, seconds, corrected.snapshot)


async def corrections(call: Call) -> Response:
    latest = await asyncio.to_thread(call.model.host.corrections, _MAX_SHOWN)
    return reply(encode(CorrectionsAnswer(latest)))
