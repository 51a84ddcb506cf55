"""`WorkerGroup`: assigns shards to workers, delivers messages to them, and recovers the shards of lost workers.

A worker becomes the owner of a shard under a new, higher epoch, which the shard's log checks on every write. The log
therefore rejects all further writes of a former owner, which may be cut off or only slow. Nothing is learned twice: a
repeated message has the same idempotency key, and the log returns the first answer.

`ShardedModel` sends everything through this class, which must never send two messages of one shard out of order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from budgetron.distributed.split.placement import workers_of
from budgetron.distributed.workers.worker import ShardMessage
from budgetron.distributed.workers.worker_pool import WorkerLost, WorkerPool
from budgetron.errors import WorkerError, input_error, shown

MAX_ATTEMPTS = 20  # of one call; after each failed attempt the worker is restarted or its shards are moved
_EPOCHS_PER_TERM = 1_000_000  # so that the epochs of a later coordinator, with a higher term, are always higher


class WorkersLost(WorkerError):
    """A call failed in all attempts, or no worker is left. The logs have all acknowledged examples."""


class WorkerGroup:
    """The workers and their shards.

    Several threads may use it. But `stream("learn", …)` keeps the messages of a shard in order only if the caller holds
    `locked(shards)`. Each shard has a lock of its own, so other shards learn while one moves.
    """

    def __init__(self, pool: WorkerPool, n_shards: int, term: int, who: str) -> None:
        self._who = who  # the class of the model, for messages
        self.pool = pool
        self.n_shards = n_shards
        self.workers: list[str] = []
        self.owner: dict[int, str] = {}
        self.epoch = dict.fromkeys(range(n_shards), term * _EPOCHS_PER_TERM)
        self.pinned: dict[int, str] = {}
        self.n_recoveries = 0
        self._locks = [threading.RLock() for _ in range(n_shards)]
        # To avoid deadlocks, locks must be taken in this order: membership (add_worker, remove_worker, pin), then
        # shards in ascending order, then the tables of owners and epochs.
        self._membership_lock = threading.Lock()
        self._table_lock = threading.RLock()
        self._n_started = 0

    # ---- workers and their shards

    def begin(self, n_workers: int, models: Sequence[Any] | None) -> None:
        """Start the first workers and assign the shards. `models` are the initial models of new shards."""
        for _ in range(n_workers):
            self._start_worker()
        for shard, worker in workers_of(self.n_shards, self.workers).items():
            self._assign(shard, worker, None if models is None else models[shard])

    def add_worker(self) -> str:
        """Start another worker, move its share of the shards to it one by one, and return its name."""
        with self._membership_lock:
            name = self._start_worker()
            self._move_shards()
            return name

    def remove_worker(self, name: str) -> None:
        """Move a worker's shards to the others, one by one, and stop it."""
        with self._membership_lock:
            with self._table_lock:
                if name not in self.workers or len(self.workers) == 1:
                    accepted = f"one of {', '.join(self.workers)}, and not the last"
                    raise input_error(self._who, "worker", accepted, shown(name),
                                      "Add a worker first if this is the only one.")  # fmt: skip
                self._remove_from_tables(name)
            self._move_shards()
            self.pool.stop_worker(name)

    def pin(self, shard: int, worker: str | None) -> None:
        """Keep a shard on one worker, and balance the other shards around it. None unpins it."""
        with self._membership_lock:
            with self._table_lock:
                if worker is None:
                    self.pinned.pop(shard, None)
                elif worker in self.workers:
                    self.pinned[shard] = worker
                else:
                    raise input_error(self._who, "worker", f"one of {', '.join(self.workers)}", shown(worker))
            self._move_shards()

    def _move_shards(self) -> None:
        """Move every shard to the worker that placement assigns to it now."""
        for shard, worker in workers_of(self.n_shards, self.workers, self.pinned).items():
            with self._locks[shard], self._table_lock:
                if self.owner[shard] != worker and worker in self.workers:  # the worker may have been lost since
                    self._move(shard, worker)

    def _move(self, shard: int, worker: str) -> None:
        """Move a shard to another worker: with its model, or by recovery from its log."""
        try:
            in_memory = self.pool.call(self.owner[shard], "release", shard, self.epoch[shard])
        except WorkerLost:
            in_memory = None  # the new owner recovers the shard from its log
        try:
            self._assign(shard, worker, in_memory)
        except WorkerLost:
            self.owner[shard] = worker  # the next message finds the worker lost, and recovers the shard

    def _assign(self, shard: int, worker: str, model: Any = None) -> None:
        """Make a worker the owner of a shard, under the next epoch."""
        self.epoch[shard] += 1
        self.pool.call(worker, "own", shard, self.epoch[shard], model)
        self.owner[shard] = worker

    def _remove_from_tables(self, worker: str) -> None:
        self.workers = [name for name in self.workers if name != worker]
        self.pinned = {shard: name for shard, name in self.pinned.items() if name != worker}

    def _start_worker(self) -> str:
        name = f"worker-{self._n_started}"
        self._n_started += 1
        self.pool.start_worker(name)
        self.workers.append(name)
        return name

    # ---- messages

    @contextmanager
    def locked(self, shards: Iterable[int]) -> Iterator[None]:
        """Lock shards: other threads can neither learn in them nor move them, except when their worker is lost.

        Predictions take no lock. A thread that finds a worker lost recovers all of its shards, also locked ones.
        """
        with ExitStack() as stack:
            for shard in sorted(set(shards)):
                stack.enter_context(self._locks[shard])
            yield

    def stream(self, method: str, batches: Iterable[list[ShardMessage]], in_flight: int) -> Iterator[list[Any]]:
        """Send batches of messages and yield their answers in order, with at most `in_flight` batches in progress."""
        pending: deque[tuple[list[ShardMessage], list[tuple[list[int], str, Any]]]] = deque()
        for batch in batches:
            pending.append((batch, self._send_batch(method, batch)))
            if len(pending) >= in_flight:
                yield self._oldest_answers(method, pending)
        while pending:
            yield self._oldest_answers(method, pending)

    def call_owner(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of a shard's owner, and retry if the owner is lost. Only for calls that may be repeated."""
        # No planned move may come between the lookup of the owner and the answer. If another thread recovers the shard
        # in between, its former owner rejects the call like a lost worker, and the call is repeated.
        with self._locks[shard]:
            for _ in range(MAX_ATTEMPTS):
                worker, epoch = self.owner[shard], self.epoch[shard]
                try:
                    return self.pool.call(worker, method, shard, epoch, *arguments)
                except WorkerLost:
                    self._recover(worker, {shard: epoch})
        raise self._workers_lost([shard])

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker, and retry if one is lost. Only for calls that may be repeated."""
        unanswered: list[int] = []  # the shards of the workers that were lost in the last attempt
        for _ in range(MAX_ATTEMPTS):
            with self._table_lock:
                workers, epochs = list(self.workers), dict(self.epoch)
            futures = [(worker, self.pool.send(worker, method, *arguments)) for worker in workers]
            answers, lost = [], []
            for worker, future in futures:
                try:
                    answers.append(self.pool.result(future))
                except WorkerLost:
                    lost.append(worker)
            if not lost:
                return answers
            unanswered = [shard for shard, owner in self.owner.items() if owner in lost]
            for worker in lost:
                self._recover(worker, {s: epochs[s] for s, owner in self.owner.items() if owner == worker})
        raise self._workers_lost(unanswered)

    def _send_batch(self, method: str, batch: list[ShardMessage]) -> list[tuple[list[int], str, Any]]:
        by_worker: dict[str, list[int]] = {}
        for i, message in enumerate(batch):
            by_worker.setdefault(self.owner[message.shard], []).append(i)
        return [
            (indices, worker, self.pool.send(worker, method, [self._with_epoch(batch[i]) for i in indices]))
            for worker, indices in by_worker.items()
        ]

    def _with_epoch(self, message: ShardMessage) -> ShardMessage:
        return replace(message, epoch=self.epoch[message.shard])

    def _oldest_answers(self, method: str, pending: deque[Any]) -> list[Any]:
        """The answers to the oldest batch. If a worker was lost, its messages and all later batches are sent again."""
        batch, futures = pending.popleft()
        answers: list[Any] = [None] * len(batch)
        unanswered: list[int] = []
        for indices, _, future in futures:
            try:
                for i, answer in zip(indices, self.pool.result(future), strict=True):
                    answers[i] = answer
            except WorkerLost:
                unanswered += indices
        if unanswered:
            # It is unknown which later messages the lost worker has learned, so all of them are sent again, in order,
            # after the failed ones. The shards' logs recognise those that were learned.
            self._drain(pending)
            for i in sorted(unanswered):
                answers[i] = self._send_until_answered(method, batch[i])
            for number, (later, _) in enumerate(pending):
                pending[number] = later, self._send_batch(method, later)
        return answers

    def _drain(self, pending: deque[Any]) -> None:
        """Wait until no message is in progress, so that a repeated message cannot overtake an earlier one."""
        for _, futures in pending:
            for _, _, future in futures:
                try:
                    self.pool.result(future)
                except WorkerLost:
                    continue

    def _send_until_answered(self, method: str, message: ShardMessage) -> Any:
        for _ in range(MAX_ATTEMPTS):
            worker, epoch = self.owner[message.shard], self.epoch[message.shard]
            try:
                return self.pool.call(worker, method, [self._with_epoch(message)])[0]
            except WorkerLost:
                self._recover(worker, {message.shard: epoch})
        raise self._workers_lost([message.shard])

    # ---- recovery

    def _recover(self, worker: str, lost_epochs: dict[int, int]) -> None:
        """Assign the shards of a lost worker to the same worker if it restarts, otherwise to the other workers.

        `lost_epochs` maps each of the caller's shards to the epoch under which its owner was lost. If these epochs have
        changed, another thread has recovered the shards already.
        """
        with self._table_lock:
            if lost_epochs and all(self.epoch[shard] != epoch for shard, epoch in lost_epochs.items()):
                return
            self.n_recoveries += 1
            if not self.pool.restart_worker(worker, is_last=self.workers == [worker]):
                self._remove_from_tables(worker)
                if not self.workers:
                    raise self._workers_lost(lost_epochs)
            targets = workers_of(self.n_shards, self.workers, self.pinned)
            for shard, owner in list(self.owner.items()):
                if owner == worker:
                    try:
                        self._assign(shard, targets[shard] if worker not in self.workers else worker)
                    except WorkerLost:
                        return  # the new owner is lost too: the next attempt recovers the shard

    def _workers_lost(self, shards: Iterable[int]) -> WorkersLost:
        """Return the error. `shards` are those without a worker; it is empty if the lost workers owned no shard."""
        names = ", ".join(map(str, sorted(shards)))
        shown_shards = f" for shard{'s' if ', ' in names else ''} {names}" if names else ""
        return WorkersLost(
            f"{self._who}: no worker answers{shown_shards}. No acknowledged example is lost: open the directory "
            f"again with {self._who}.open. A block that was sent with a key can be sent again."
        )

    def close(self) -> None:
        self.pool.close()
