"""`Worker`: owns some shards. A worker runs in a thread or as a Ray actor.

Each shard is a model in its own `Host`, or only in memory if there is no directory. The coordinator (the process of the
`ShardedModel`) assigns shards to workers, each time under a higher epoch. Every message names the epoch of its shard. A
worker rejects other epochs, and so does the shard's log. Correctness depends on the check in the log: a worker that is
cut off from the coordinator does not know that it has lost the shard.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.directory.file_access import write_file
from budgetron.distributed.replicas.exchange import SharedPart, shared_part, with_shared_part
from budgetron.durable import Host, KeyReused, Learned, Request, StreamRows
from budgetron.durable.hosted_model import HostedModel, hosted_model_from
from budgetron.errors import WorkerError
from budgetron.learners.block_learner import Block
from budgetron.learners.lifecycle.saved import content_of

OTHER_ROWS = -1  # answer of `check_keys`: the key was used with other rows
WRITERS = 8  # threads that write logs; often more than cores, because they mostly wait for fsync


class NotTheOwner(WorkerError):
    """The message is for a shard that this worker does not own, or does not own under this epoch."""


@dataclass(frozen=True)
class ShardMessage:
    """Validated rows for one shard, its owner's epoch, the key of the call, and the rows' positions in that call."""

    shard: int
    epoch: int
    block: Block | None
    # `sample_weight` as passed to the call, for the log; the weights in `block` also include class weights.
    sample_weight: NDArray[np.float64] | None = None
    key: str | None = None
    rows: StreamRows | None = None


@dataclass(frozen=True)
class ShardStatistics:
    """The statistics of one shard."""

    shard: int
    epoch: int
    n_seen: int
    n_mistakes: int
    n_stored: int
    capacity: int | None
    memory_bytes: int
    stored_by_task: dict[Any, int] = field(default_factory=dict)


@dataclass
class _OwnedShard:
    epoch: int
    host: Host | None
    in_memory: Any = None  # the model, if there is no directory
    # A message failed: nothing is learned until the shard is assigned again, to keep the rows in order.
    is_behind: bool = False

    @property
    def model(self) -> Any:
        return self.in_memory if self.host is None else self.host.model


class Worker:
    """Owns shards, and learns and predicts for them. The pool calls its methods one at a time."""

    def __init__(self, name: str, directory: str | None, snapshot_every: int = 50_000) -> None:
        self.name = name
        self._directory = directory
        self._snapshot_every = snapshot_every
        self._owned: dict[int, _OwnedShard] = {}
        self._learning_lock = threading.Lock()  # one model learns at a time, so that a worker uses one core
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix=f"{name}-log")

    def ping(self) -> dict[str, Any]:
        """Name, process id, host name, shards and CPU seconds. An answer shows that the worker is alive."""
        worker = {"name": self.name, "pid": os.getpid(), "host": socket.gethostname(), "shards": sorted(self._owned)}
        return {**worker, "cpu_seconds": time.process_time()}

    def warm_up(self) -> None:
        """Import everything that a shard may need, so that a spare worker can take one at once."""
        import budgetron

        for name in budgetron.__all__:
            getattr(budgetron, name)

    def become(self, name: str) -> None:
        """Take the place of a lost worker, under its name and without its shards."""
        # If this process was replaced while it was alive, it still has shards that other workers own now.
        for owned in self._owned.values():
            self._close(owned)
        self._owned = {}
        self.name = name

    def check_ready(self) -> None:
        """Raise the error that learning would raise now, in any shard of this worker."""
        for owned in self._owned.values():
            if owned.host is not None:
                owned.host.check_ready()

    # ---- ownership

    def own(self, shard: int, epoch: int, model: Any = None) -> int:
        """Become the owner of a shard under a new epoch. A new shard starts with `model`."""
        if shard in self._owned:  # the entry stays, so that statistics work even if the log cannot be opened
            self._close(self._owned[shard])
        if self._directory is None:
            self._owned[shard] = _OwnedShard(epoch, None, model)
            return epoch
        folder = Path(self._directory) / folder_of(shard)
        host = Host.open(
            folder, model=model, epoch=epoch, snapshot_every=self._snapshot_every, learning_lock=self._learning_lock
        )
        if model is not None and host.position == 0:
            host.snapshot()  # so that a recovery starts from this model
        self._owned[shard] = _OwnedShard(epoch, host)
        return epoch

    def release(self, shard: int, epoch: int) -> Any:
        """Give up a shard after a snapshot. Returns the model if there is no directory to recover it from."""
        owned = self._owned_shard(shard, epoch)
        self._close(owned)
        del self._owned[shard]
        return owned.in_memory

    def close(self) -> None:
        for owned in self._owned.values():
            self._close(owned)
        self._owned = {}
        self._writers.shutdown()

    # ---- learning and predicting

    def learn(self, messages: list[ShardMessage]) -> list[NDArray[np.float64]]:
        """Learn messages and return the margins of each, as they were before it was learned.

        Messages of one shard share a commit, unless they have the same key. Shards write their logs in parallel. They
        learn one at a time, while others may write.
        """
        by_shard: dict[int, list[int]] = {}
        for i, message in enumerate(messages):
            # The coordinator must assign a shard again after a failed message.
            if self._owned_shard(message.shard, message.epoch).is_behind:
                raise self._not_owner(message.shard, message.epoch, "an earlier message failed")
            by_shard.setdefault(message.shard, []).append(i)
        groups = [[messages[i] for i in indices] for indices in by_shard.values()]
        # Without a directory, or with one shard only, there is no fsync to overlap, so threads would not help.
        run_groups = self._writers.map if self._directory is not None and len(groups) > 1 else map
        answers: list[Any] = [None] * len(messages)
        for indices, learned in zip(by_shard.values(), list(run_groups(self._learn_messages, groups)), strict=True):
            for i, answer in zip(indices, learned, strict=True):
                answers[i] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def check_keys(self, messages: list[ShardMessage]) -> list[int]:
        """For each message, the number of its rows learned before; `OTHER_ROWS` if its key was used with other rows."""
        return [self._n_learned(message) for message in messages]

    def _n_learned(self, message: ShardMessage) -> int:
        host = self._owned_shard(message.shard, message.epoch).host
        assert message.key is not None and message.rows is not None
        try:
            return 0 if host is None else host.check_stream(message.key, message.rows)
        except KeyReused:
            return OTHER_ROWS

    def margins(self, messages: list[ShardMessage]) -> list[NDArray[np.float64]]:
        """Compute the margins of each message without learning."""
        owned = [self._owned_shard(message.shard, message.epoch) for message in messages]
        return [shard.model.block_margins(message.block) for shard, message in zip(owned, messages, strict=True)]

    def forget(self, shard: int, epoch: int, task: Any) -> None:
        owned = self._owned_shard(shard, epoch)
        (owned.model if owned.host is None else owned.host).forget_task(task)

    def task_weights(self, shard: int, epoch: int, task: Any) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = self._owned_shard(shard, epoch).model.task_weights(task)
        return weights

    def _learn_messages(self, messages: list[ShardMessage]) -> list[Any]:
        """Learn the messages of one shard. Returns the margins or the exception of each."""
        owned = self._owned[messages[0].shard]
        host = owned.host
        if host is None:
            return [owned.in_memory.learn_block(message.block) for message in messages]
        answers = host.learn_many([_request(message) for message in messages], in_order=True)
        owned.is_behind = any(isinstance(answer, Exception) and not isinstance(answer, KeyReused) for answer in answers)
        return [answer.margins if isinstance(answer, Learned) else answer for answer in answers]

    # ---- maintenance

    def statistics(self, by_task: bool = False) -> list[ShardStatistics]:
        """The statistics of every shard of this worker."""
        return [_statistics(shard, owned, by_task) for shard, owned in sorted(self._owned.items())]

    def resize(self, shard: int, epoch: int, capacity: int) -> int:
        """Change the capacity of a shard. The learner evicts examples by its own rule.

        With a directory, the change is on disk before this returns.
        """
        owned = self._owned_shard(shard, epoch)
        if owned.host is None:
            owned.in_memory.resize(capacity)
        else:
            resized = hosted_model_from(owned.host.content())
            resized.model.resize(capacity)
            owned.host.restore(resized.content())
        return int(owned.model.capacity_)

    def shared_part(self, shard: int, epoch: int) -> SharedPart:
        """The part of the shard's model that all tasks share."""
        model = self._owned_shard(shard, epoch).model
        with model._guard:
            return shared_part(model._engine)

    def receive(self, shard: int, epoch: int, part: SharedPart) -> None:
        """Replace the shared part of a shard; with a directory, on disk before this returns. Repeating it is safe."""
        owned = self._owned_shard(shard, epoch)
        hosted = HostedModel(owned.in_memory) if owned.host is None else hosted_model_from(owned.host.content())
        with hosted.model._guard:
            hosted.model._engine = with_shared_part(hosted.model._engine, part)
        if owned.host is not None:
            owned.host.restore(hosted.content())

    def snapshot(self, shard: int, epoch: int) -> None:
        """Write the shard's model into its directory and trim its log."""
        owned = self._owned_shard(shard, epoch)
        if owned.host is not None:
            owned.host.snapshot()

    def content(self, shard: int, epoch: int) -> bytes:
        """The bytes of the shard's model file."""
        owned = self._owned_shard(shard, epoch)
        if owned.host is not None:
            return owned.host.content()
        with owned.in_memory._guard:
            return content_of(owned.in_memory)

    def save(self, shard: int, epoch: int, target: str, name: str) -> str:
        """Write the shard's model file to a folder or URL, directly from this worker. Returns its SHA-256."""
        return write_file(target, name, self.content(shard, epoch))

    def _owned_shard(self, shard: int, epoch: int) -> _OwnedShard:
        owned = self._owned.get(shard)
        if owned is None or owned.epoch != epoch:
            detail = "it does not own the shard" if owned is None else f"its epoch is {owned.epoch}"
            raise self._not_owner(shard, epoch, detail)
        return owned

    def _not_owner(self, shard: int, epoch: int, detail: str) -> NotTheOwner:
        return NotTheOwner(f"worker {self.name}: cannot use shard {shard} under epoch {epoch}: {detail}.")

    def _close(self, owned: _OwnedShard) -> None:
        if owned.host is not None:
            owned.host.close()


def folder_of(shard: int) -> str:
    """The name of a shard's folder inside the directory of the model."""
    return f"shard-{shard:05d}"


def _request(message: ShardMessage) -> Request:
    block = message.block
    assert block is not None
    return Request(block.rows, block.labels, block.tasks, message.key, None, message.sample_weight, message.rows, block)


def _statistics(shard: int, owned: _OwnedShard, by_task: bool) -> ShardStatistics:
    model = owned.model
    stored: dict[Any, int] = {}
    if by_task:
        stored = {task: round(share * model.n_stored_) for task, share in model.budget_share_.items()}
    counts = model.n_seen_, model.n_mistakes_, model.n_stored_
    return ShardStatistics(shard, owned.epoch, *counts, model.capacity_, model.memory_bytes_, stored)
