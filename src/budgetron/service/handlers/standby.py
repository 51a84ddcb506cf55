"""GET copy reports on the continuous copy of a model; POST takeover makes a standby the owner."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import convert
from starlette.responses import Response

from budgetron.service.http.admin_wire import CopyAnswer
from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import Done, encode, reply

if TYPE_CHECKING:
    from budgetron.service.http.call import Call


async def copy(call: Call) -> Response:
    replication = call.model.replication
    state = {"role": "none"} if replication is None else await asyncio.to_thread(replication.state)
    return reply(encode(convert({**state, "position": call.model.host.position}, CopyAnswer)))


async def take_over(call: Call) -> Response:
    await call.body()
    replication = call.model.replication
    if replication is None or not await asyncio.to_thread(replication.take_over):
        message = (
            "takeover: this service is not a standby of the model. Send the request to a service that was started "
            "with --standby-of."
        )
        raise HTTPProblem(409, "not_standby", message)
    return reply(encode(Done(call.model.host.position)))
