"""A named model of the service: its host, its writer, what waits for labels, and its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from budgetron.durable import Host
from budgetron.durable.hosted_model import HostedModel
from budgetron.service.pending import KEY, Pending
from budgetron.service.predicting import Predictor
from budgetron.service.problems import Refused, refused_of
from budgetron.service.settings import Settings
from budgetron.service.shards import ShardedHost, is_in_shards
from budgetron.service.watch import Watch
from budgetron.service.writer import Writer

Answer = TypeVar("Answer")


class Hosted:
    """One model at work. Made on the event loop, closed on it."""

    def __init__(self, name: str, host: Host | ShardedHost, settings: Settings) -> None:
        self.name, self.host = name, host
        self.limits = settings.limits
        self.watch = Watch()
        self.pending = Pending(host.directory, settings.pending)
        self.pending.note_learned(host.remembered(KEY))
        self.writer = Writer(name, host, self.watch, settings.limits.waiting_examples)
        self.predictor = Predictor(self)

    @classmethod
    async def open(cls, name: str, directory: Path, make_model: Callable[[], Any] | None, settings: Settings) -> Hosted:
        if settings.shards is not None or is_in_shards(directory):
            # In a thread: where Ray is started from the main one it takes SIGTERM for itself.
            return cls(name, await asyncio.to_thread(ShardedHost.open, directory, make_model, settings), settings)
        return cls(name, Host.open(directory, make_model, snapshot_every=settings.snapshot_every), settings)

    @property
    def kept(self) -> HostedModel:
        return self.host.hosted_model

    @property
    def in_shards(self) -> bool:
        return isinstance(self.host, ShardedHost)

    @property
    def replayed(self) -> int:
        """Examples that were learned again, or at last, when it was opened."""
        return self.host.replayed if isinstance(self.host, ShardedHost) else self.host.recovery.replayed_examples

    @property
    def failing(self) -> Exception | None:
        """Why something could not be written, or sent to its shard, the last time that was tried."""
        return self.host.failing if isinstance(self.host, ShardedHost) else self.host.snapshot_error

    async def not_ready(self) -> Refused | None:
        """Why labels cannot be learned now, found out by trying; None where they can."""
        if self.writer.revive():
            return Refused(503, "writer", "The writer thread had ended, and was started again.")
        try:
            await asyncio.to_thread(self.host.check_ready)
        except Exception as error:
            return refused_of(error) or Refused(500, "fault", type(error).__name__)
        return None

    def state(self) -> dict[str, Any]:
        """What the live page shows."""
        return self.watch.state(self.name, self.host)

    async def restore(self, content: bytes) -> None:
        """Put another model in this one's place: model, columns and figures change in one step, between two commits."""
        await self.writer.call(lambda: self.host.restore(content, self.watch.replacing()))

    async def asked(self, question: Callable[[], Answer]) -> Answer:
        """What the model says of itself: at once, or without holding others up where shards have to be asked."""
        return await asyncio.to_thread(question) if self.in_shards else question()

    def close(self) -> None:
        self.writer.stop()
        self.pending.close()
        self.host.close()
