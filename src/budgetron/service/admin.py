"""Looking at a model, and what only an administrator may do with it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetron.service.exchange import Exchange
from budgetron.service.features import check_text
from budgetron.service.problems import Refused
from budgetron.service.watch import beliefs, plain
from budgetron.service.wire import Done, ModelAnswer, ShardAnswer, TaskAnswer, encode

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

BINARY = b"application/octet-stream"
_PIECE = 2**20
_MOST_SHARES = 1000


async def model(hosted: Hosted, exchange: Exchange) -> None:
    """GET model: what it was made with, and what it holds."""
    await exchange.reply(encode(await hosted.asked(lambda: _described(hosted))))


def _described(hosted: Hosted) -> ModelAnswer:
    kept = hosted.kept  # once: a restore may put another in its place meanwhile
    learner = kept.model
    begun = kept.begun
    share = list(learner.budget_share_.items())[:_MOST_SHARES] if begun else []
    described = None if kept.columns is None else [row._asdict() for row in kept.columns.describe()]
    return ModelAnswer(
        name=hosted.name,
        learner=type(learner).__name__,
        settings={name: str(value) for name, value in learner.get_params(deep=False).items()},
        columns=described,
        begun=begun,
        position=hosted.host.position,
        seen=learner.n_seen_ if begun else 0,
        mistakes=learner.n_mistakes_ if begun else 0,
        stored=learner.n_stored_ if begun else 0,
        capacity=learner.capacity_ if begun else None,
        memory_bytes=learner.memory_bytes_ if begun else 0,
        classes=learner.classes_.tolist() if begun else [],
        n_features=kept.width,
        budget_share={str(task): part for task, part in share},
        beliefs=beliefs(learner) if begun else [],
        budget_scope="shard" if hosted.in_shards else "model",
        shards=[_shard(shard) for shard in learner.shards_] if hosted.in_shards and begun else [],
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


async def task(hosted: Hosted, exchange: Exchange, name: str) -> None:
    """GET tasks/{task}."""
    wanted = task_named(hosted, name)
    learner = hosted.host.model
    share, all_stored = await hosted.asked(lambda: _share(hosted, wanted))
    figures = hosted.watch.of_task(wanted, hasattr(learner, "predict_proba"))
    if figures is None and not share:
        message = f"task: {name!r} has nothing stored, and nothing was learned for it since the service started."
        raise Refused(404, "unknown_task", message)
    await exchange.reply(encode(TaskAnswer(plain(wanted), round(share * all_stored), share, figures)))


def _share(hosted: Hosted, task: Any) -> tuple[float, int]:
    """A task's share of what is stored, and how much that is in all."""
    kept = hosted.kept
    return (kept.model.budget_share_.get(task, 0.0), kept.model.n_stored_) if kept.begun else (0.0, 0)


async def forget(hosted: Hosted, exchange: Exchange, name: str) -> None:
    """DELETE tasks/{task}: remove what the model keeps of it."""
    learned = await asyncio.to_thread(hosted.host.forget_task, task_named(hosted, name))
    await exchange.reply(encode(Done(learned.position)))


def task_named(hosted: Hosted, name: str) -> Any:
    """The task of a path: an integer where it is written as one; in double quotes it is a string whatever it says."""
    if len(name) >= 2 and name[0] == name[-1] == '"':
        wanted: Any = name[1:-1]
    else:
        digits = name.removeprefix("-")
        wanted = int(name) if digits.isascii() and digits.isdigit() and len(digits) < 20 else name
    check_text("task", wanted, hosted.limits)
    return wanted


async def download(hosted: Hosted, exchange: Exchange) -> None:
    """GET snapshot: the model file as of now."""
    content = await asyncio.to_thread(hosted.host.content)
    name = f'attachment; filename="{hosted.name}.budgetron"'.encode()
    await exchange.reply(content, kind=BINARY, headers=[(b"content-disposition", name)])


async def restore(hosted: Hosted, exchange: Exchange) -> None:
    """PUT snapshot: put the model of a model file in this one's place."""
    content = await exchange.body(exchange.limits.restore_bytes)
    await hosted.restore(content)
    await exchange.reply(encode(Done(hosted.host.position)))


async def snapshot(hosted: Hosted, exchange: Exchange) -> None:
    """POST snapshot: write one to disk now, and trim the log."""
    await exchange.body()
    await asyncio.to_thread(hosted.host.snapshot)
    await exchange.reply(encode(Done(hosted.host.position)))


async def backup(hosted: Hosted, exchange: Exchange) -> None:
    """GET backup: the whole state of the model in one file, taken while learning goes on."""
    with tempfile.TemporaryDirectory(dir=hosted.host.directory) as folder:
        path = Path(folder) / "host.sqlite"
        await asyncio.to_thread(hosted.host.backup, path)
        await exchange.begin(BINARY, [(b"content-disposition", b'attachment; filename="host.sqlite"')])
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                await exchange.write(piece)
        await exchange.write(b"", more=False)


async def live(hosted: Hosted, exchange: Exchange) -> None:
    """GET live: what the page shows."""
    await exchange.reply(encode(await hosted.asked(hosted.state)))
