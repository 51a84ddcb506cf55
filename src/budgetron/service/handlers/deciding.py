"""PUT and DELETE operating-point: set or remove the rule by which the model turns scores into decisions.

The change is a record of the log, in order with the examples, so the model decides in the same way after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs
from starlette.responses import Response

from budgetron.service.http.admin_wire import OperatingPointAnswer, operating_point_request
from budgetron.service.http.wire import encode, reply
from budgetron.service.logs import log
from budgetron.service.monitoring.statistics import operating_point

if TYPE_CHECKING:
    from budgetron.service.http.call import Call


async def change(call: Call) -> Response:
    request = structs.asdict(operating_point_request.decode(await call.body()))
    return await _set_point(call, {name: value for name, value in request.items() if value is not UNSET})


async def remove(call: Call) -> Response:
    return await _set_point(call, None)


async def _set_point(call: Call, settings: dict[str, Any] | None) -> Response:
    model = call.model
    learned = await model.writer.call(lambda: model.host.set_operating_point(settings))
    log("operating_point", model=model.name, position=learned.position, settings=settings, key=call.api_key.name)
    return reply(encode(OperatingPointAnswer(learned.position, operating_point(model.hosted.model))))
