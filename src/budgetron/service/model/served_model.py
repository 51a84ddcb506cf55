"""`ServedModel`: a named model of the service, with its host, writer, pending predictions and statistics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from budgetron.distributed.shard_options import ShardOptions, is_sharded_host
from budgetron.distributed.sharded_host import ShardedHost
from budgetron.durable import Host, HostedModel, ModelHost
from budgetron.learners.asking import Asking
from budgetron.service.handlers.predicting import Predictor
from budgetron.service.model.model_versions import ModelVersions
from budgetron.service.model.pending import KEY_PREFIX, Pending
from budgetron.service.model.writer import Writer
from budgetron.service.monitoring.statistics import LiveStatistics
from budgetron.service.replication import Replication
from budgetron.service.settings import ServiceSettings

Answer = TypeVar("Answer")


class ServedModel:
    """One model. Created and closed on the event loop."""

    def __init__(
        self, name: str, host: ModelHost, settings: ServiceSettings, replication: Replication | None = None
    ) -> None:
        self.name, self.host, self.replication = name, host, replication
        self.limits = settings.limits
        self.statistics = LiveStatistics()
        self.pending = Pending(host.directory, settings.pending, settings.limits.pending_bytes)
        self.pending.note_learned(host.answers_to(KEY_PREFIX))
        # If the process ended while a task was forgotten, its predictions are still there.
        for position, task in host.forgotten_tasks(self.pending.forgotten_until):
            self.pending.forget_task(task, position)
        self.asking = Asking()  # not part of the model, because a restore replaces the model
        self.writer = Writer(name, host, self.statistics, settings.limits.waiting_examples)
        self.versions = ModelVersions(name, host, self.statistics.replacing, self.writer.listen)
        if replication is not None:
            replication.on_taken_over = self.versions.reload
        self.predictor = Predictor(host, self.writer, settings.limits, self.versions)

    @property
    def hosted(self) -> HostedModel:
        """The current model and its columns. Read this once per request: a restore or a correction replaces both."""
        return self.host.hosted_model

    @property
    def in_shards(self) -> bool:
        return self.host.in_shards

    def state(self) -> dict[str, Any]:
        """The state of the model, as described in `monitoring.statistics`."""
        return self.statistics.state(self.name, self.host)

    async def shown(self) -> dict[str, Any]:
        """The data of the live page: the state, the length of the labelling queue, and the candidate."""
        state = await self.ask(self.state)
        # The table of pending predictions belongs to the event loop.
        return state | {"waiting_labels": self.pending.n_waiting(), "candidate": self.versions.shown()}

    async def restore(self, content: bytes) -> int:
        """Replace the model and its columns by a model file, and reset the statistics, in one step between two commits.

        Returns the number of the record that replaced the model.
        """

        def replace() -> int:
            self.host.restore(content, self.statistics.replacing())
            self.versions.model_replaced()
            return self.host.position  # in the writer thread, before it learns the next labels

        position: int = await self.writer.call(replace)
        return position

    async def forget_task(self, task: Hashable) -> int:
        """Forget a task in the model, its candidate and the remembered predictions. Returns the number of the record.

        The record of the log is written first. If the rest fails, the request fails, and repeating it completes it.
        """

        def forget() -> int:
            learned = self.host.forget_task(task)
            self.versions.task_forgotten()
            return learned.position

        # Labels of this task may be waiting for the writer thread. Because the task is forgotten in that thread, they
        # are learned before it is forgotten, not after. Labels that arrive now would be learned after it.
        with self.pending.hidden(task):
            position: int = await self.writer.call(forget)
            self.pending.forget_task(task, position)
        return position

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        """Run a query on the model. If the model has shards, run it in a thread, because workers may answer slowly."""
        return await asyncio.to_thread(question) if self.in_shards else question()

    def close(self) -> None:
        self.writer.stop()
        self.versions.close()
        if self.replication is not None:
            self.replication.stop()
        self.pending.close()
        self.host.close()


def open_host(directory: Path, make_model: Callable[[], Any] | None, settings: ServiceSettings) -> ModelHost:
    """Open the directory of a model and recover the model. This may take long: call it in a thread."""
    if settings.shards is not None or is_sharded_host(directory):
        options = ShardOptions(
            shards=settings.shards or 1,
            workers=settings.workers,
            ray=settings.ray,
            block=settings.limits.examples,  # so that one request needs at most one message per shard
            snapshot_every=settings.snapshot_every,
        )
        return ShardedHost.open(directory, make_model, options)
    return Host.open(directory, make_model, snapshot_every=settings.snapshot_every)
