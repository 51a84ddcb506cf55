"""POST and GET corrections: wrong labels that are still in the log, and the audit trail of what was corrected.

Corrections run in the writer thread, between two commits: learning waits until the records after the corrected one are
learned again, and predictions go on with the old model.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from starlette.responses import Response

from budgetron.durable import Corrected
from budgetron.errors import input_error
from budgetron.service.handlers.features import check_text
from budgetron.service.http.admin_wire import CorrectionAnswer, CorrectionsAnswer, correction_request
from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import encode, reply

if TYPE_CHECKING:
    from budgetron.service.http.call import Call

_SHOWN = 1000


async def correct(call: Call) -> Response:
    given = correction_request.decode(await call.body())
    model = call.model
    if (given.position is UNSET) == (given.key is UNSET):
        both = "both" if given.key is not UNSET else "neither"
        raise input_error("corrections", "the body", 'one with "position" or "key"', both)
    if (given.label is UNSET) == (given.withdraw is not True):
        both = "both" if given.label is not UNSET else "neither"
        raise input_error("corrections", "the body", 'one with "label", or one with "withdraw": true', both)
    position = given.position
    if given.key is not UNSET:
        found = await asyncio.to_thread(model.host.record_of, given.key)
        if found is None:
            message = f'corrections: "key" must be that of a request whose answer is stored; got {given.key[:80]!r}.'
            raise HTTPProblem(404, "unknown", message)
        position = found
    row = None if given.row is UNSET else given.row
    label = None if given.label is UNSET else given.label
    reason = "" if given.reason is UNSET else given.reason
    corrected = await corrected_in(call, position, row, label, given.withdraw is True, reason)
    return reply(encode(answer_of(corrected)))


async def corrected_in(
    call: Call, position: Any, row: int | None, label: Any, withdraw: bool, reason: str
) -> Corrected:
    """Correct a label or withdraw its example, between two commits. The labels are in the trail of the model."""
    model, host, who = call.model, call.model.host, call.api_key.name
    check_text("label", label, model.limits)

    def change() -> Corrected:
        if withdraw:
            return host.withdraw(position, row, who=who, reason=reason)
        return host.correct(position, label, row, who=who, reason=reason)

    corrected: Corrected = await model.writer.call(change)
    line = corrected.correction
    call.details |= {
        "correction": line.number, "position": line.position, "row": line.row, "withdrawn": line.withdrawn,
        "replayed": corrected.replayed_examples, "seconds": round(corrected.seconds, 3),
    }  # fmt: skip
    return corrected


def answer_of(corrected: Corrected) -> CorrectionAnswer:
    seconds = round(corrected.seconds, 6)
    return CorrectionAnswer(corrected.correction, corrected.replayed_examples, seconds, corrected.snapshot)


async def corrections(call: Call) -> Response:
    found = await asyncio.to_thread(call.model.host.corrections, _SHOWN)
    return reply(encode(CorrectionsAnswer(found)))
