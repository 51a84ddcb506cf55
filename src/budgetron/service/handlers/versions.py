"""Versions of a model: list, save, activate, delete, roll back; and the candidate: begin, end, promote."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import convert, to_builtins
from starlette.responses import Response

from budgetron.service.http.admin_wire import VersionsAnswer, candidate_request
from budgetron.service.http.wire import Done, encode, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from budgetron.service.http.call import Call


async def versions(call: Call) -> Response:
    return reply(encode(await asyncio.to_thread(_description, call)))


def _description(call: Call) -> VersionsAnswer:
    served = call.model.versions
    state = served.versions.state
    description = {"versions": served.versions.names(), "current": state.current, "rollback": state.previous,
             "candidate": served.shown(), "events": list(reversed(state.events))}  # fmt: skip
    answer: VersionsAnswer = convert(to_builtins(description), VersionsAnswer)
    return answer


async def save(call: Call) -> Response:
    content = await call.body(call.limits.restore_bytes)
    await asyncio.to_thread(call.model.versions.save, _name(call), content)
    return _done(call)


async def activate(call: Call) -> Response:
    await call.body()
    return await _change(call, lambda: call.model.versions.activate(_name(call), call.api_key.name))


async def rollback(call: Call) -> Response:
    await call.body()
    return await _change(call, lambda: call.model.versions.rollback(call.api_key.name))


async def promote(call: Call) -> Response:
    await call.body()
    return await _change(call, lambda: call.model.versions.promote(call.api_key.name))


async def delete(call: Call) -> Response:
    return await _change(call, lambda: call.model.versions.versions.delete(_name(call)))


async def begin(call: Call) -> Response:
    request = candidate_request.decode(await call.body())
    candidate = await call.model.writer.call(lambda: call.model.versions.begin(request.version, request.share))
    return reply(encode(candidate.shown()))


async def end(call: Call) -> Response:
    return await _change(call, call.model.versions.end)


async def _change(call: Call, action: Callable[[], Any]) -> Response:
    """Run a change in the writer thread, between two commits. `action` returns the number of its record, or None."""
    position = await call.model.writer.call(action)
    return _done(call) if position is None else reply(encode(Done(position)))


def _done(call: Call) -> Response:
    return reply(encode(Done(call.model.host.position)))


def _name(call: Call) -> str:
    return str(call.request.path_params["version"])
