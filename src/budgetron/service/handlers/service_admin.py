"""GET and PUT limits, and GET audit: operations of the service, not of one model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET, structs
from starlette.responses import Response

from budgetron.errors import input_error
from budgetron.service.http.admin_wire import AuditAnswer, LimitsAnswer, limits_request
from budgetron.service.http.wire import encode, reply

if TYPE_CHECKING:
    from budgetron.service.http.call import ServiceCall
    from budgetron.service.lifecycle import Service

_MAX_SHOWN = 1000


def _current(service: Service) -> LimitsAnswer:
    rates = service.rates
    return LimitsAnswer(rates.rate, rates.address_rate, service.connections.per_address, service.slow_log.seconds)


async def limits(service: Service, call: ServiceCall) -> Response:
    return reply(encode(_current(service)))


async def set_limits(service: Service, call: ServiceCall) -> Response:
    """Change the limits that the request names, until the service stops. The next start uses the options of `serve`."""
    request = limits_request.decode(await call.body())
    changes = {name: value for name, value in structs.asdict(request).items() if value is not UNSET}
    if not changes:
        accepted = "an object with one or more of " + ", ".join(f'"{name}"' for name in request.__struct_fields__)
        raise input_error("limits", "the body", accepted, "none of them")
    before = structs.asdict(_current(service))
    after = LimitsAnswer(**{**before, **changes})
    service.rates.rate, service.rates.address_rate = after.rate, after.address_rate
    service.connections.per_address = after.address_connections
    service.slow_log.seconds = after.slow_seconds
    call.details |= {name: {"from": before[name], "to": value} for name, value in changes.items()}
    return reply(encode(after))


async def audit(service: Service, call: ServiceCall) -> Response:
    return reply(encode(AuditAnswer(await asyncio.to_thread(service.audit.lines, _MAX_SHOWN))))
