"""GET model, tasks and live, and the operations of administrators: download, restore, snapshot, back up, forget."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

from starlette.responses import Response, StreamingResponse

from budgetron.durable.ownership import TEMPORARY
from budgetron.service.handlers.features import check_text
from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import SAFE_HEADERS, Done, ModelAnswer, ShardAnswer, TaskAnswer, encode, reply
from budgetron.service.monitoring.statistics import TASKS, beliefs, operating_point, plain

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.served_model import ServedModel

BINARY = "application/octet-stream"
_PIECE_BYTES = 2**20
_MAX_SHARES = 1000  # tasks whose share of the stored examples GET model lists


async def model(call: Call) -> Response:
    return reply(encode(await call.model.ask(lambda: _description(call.model))))


def _description(served: ServedModel) -> ModelAnswer:
    hosted = served.hosted
    learner, is_fitted = hosted.model, hosted.is_fitted
    share = list(learner.budget_share_.items())[:_MAX_SHARES] if is_fitted else []
    return ModelAnswer(
        name=served.name,
        learner=type(learner).__name__,
        settings={name: str(value) for name, value in learner.get_params(deep=False).items()},
        columns=None if hosted.columns is None else [row._asdict() for row in hosted.columns.describe()],
        begun=is_fitted,
        position=served.host.position,
        seen=learner.n_seen_ if is_fitted else 0,
        mistakes=learner.n_mistakes_ if is_fitted else 0,
        stored=learner.n_stored_ if is_fitted else 0,
        capacity=learner.capacity_ if is_fitted else None,
        memory_bytes=learner.memory_bytes_ if is_fitted else 0,
        classes=learner.classes_.tolist() if is_fitted else [],
        n_features=hosted.width,
        budget_share={str(task): part for task, part in share},
        beliefs=beliefs(learner) if is_fitted else [],
        budget_scope="shard" if served.in_shards else "model",
        shards=[_shard(shard) for shard in learner.shards_] if served.in_shards and is_fitted else [],
        operating_point=operating_point(learner),
    )


def _shard(shard: Any) -> ShardAnswer:
    return ShardAnswer(
        shard=shard.shard,
        worker=shard.worker,
        seen=shard.n_seen,
        mistakes=shard.n_mistakes,
        stored=shard.n_stored,
        capacity=shard.capacity,
        memory_bytes=shard.memory_bytes,
    )


async def task(call: Call) -> Response:
    served = call.model
    name = _task_of(call)
    share, n_stored = await served.ask(lambda: _share(served, name))
    statistics = served.statistics.of_task(name)
    if statistics is None and not share:
        message = (
            f"task: the model stores no example of {str(name)!r}, and there are no statistics of it. Statistics are "
            f"kept for the first {TASKS:,} tasks with labels since the service started or the model was replaced."
        )
        raise HTTPProblem(404, "unknown_task", message)
    return reply(encode(TaskAnswer(plain(name), round(share * n_stored), share, statistics)))


def _share(served: ServedModel, task: Any) -> tuple[float, int]:
    """A task's share of the stored examples, and the number of all stored examples."""
    hosted = served.hosted
    return (hosted.model.budget_share_.get(task, 0.0), hosted.model.n_stored_) if hosted.is_fitted else (0.0, 0)


async def forget(call: Call) -> Response:
    position = await call.model.forget_task(_task_of(call))
    # The audit log records only the position, because a task may be named after a person.
    call.details["position"] = position
    return reply(encode(Done(position)))


def _task_of(call: Call) -> Any:
    """The task in the path: an integer if it looks like one, unless it is written in double quotes."""
    name = call.request.path_params["task"]
    if len(name) >= 2 and name[0] == name[-1] == '"':
        task_name: Any = name[1:-1]
    else:
        digits = name.removeprefix("-")  # an integer of 64 bits has at most 19 digits
        task_name = int(name) if digits.isascii() and digits.isdigit() and len(digits) < 20 else name
    check_text("task", task_name, call.limits)
    return task_name


async def download(call: Call) -> Response:
    content = await asyncio.to_thread(call.model.host.content)
    name = {"content-disposition": f'attachment; filename="{call.model.name}.budgetron"'}
    return reply(content, media_type=BINARY, headers=name)


async def restore(call: Call) -> Response:
    content = await call.body(call.limits.restore_bytes)
    call.details |= {"bytes": len(content), "sha256": (await asyncio.to_thread(sha256, content)).hexdigest()}
    call.details["position"] = position = await call.model.restore(content)
    return reply(encode(Done(position)))


async def snapshot(call: Call) -> Response:
    await call.body()
    await asyncio.to_thread(call.model.host.snapshot)
    call.model.pending.empty_write_ahead_file()
    call.details["position"] = call.model.host.position
    return reply(encode(Done(call.model.host.position)))


async def backup(call: Call) -> Response:
    """Download model, log and idempotency keys as one file. The model can learn meanwhile."""
    host = call.model.host
    path = host.directory / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        await asyncio.to_thread(host.backup, path)
        file = open(path, "rb")  # noqa: SIM115 (`_pieces` closes it)
    finally:
        # The copy stays readable through the open file. A copy that a kill leaves behind is deleted at the next start.
        path.unlink(missing_ok=True)
    headers = SAFE_HEADERS | {"content-disposition": 'attachment; filename="host.sqlite"'}
    return StreamingResponse(_pieces(file), headers=headers, media_type=BINARY)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


async def live(call: Call) -> Response:
    return reply(encode(await call.model.shown()))
