"""The team: which worker owns which shard, under which epoch; and what to do when one is lost.

An owner is made by raising the shard's epoch, which its log checks on every write. So whatever a former owner still
does, having been cut off or merely slow, is refused there, and nothing is learned twice: a parcel that is sent again
carries the same key, and the log answers it as it did the first time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from budgetron.distributed.crew import Crew, Lost
from budgetron.distributed.placement import WHO, workers_of
from budgetron.distributed.worker import Parcel
from budgetron.errors import WorkerError, refusal, refuse, shown

TRIES = 20  # of one parcel, each after its worker was revived or its shard moved
_TERM = 1_000_000  # epochs of one coordinator


class WorkersLost(WorkerError):
    """No worker is left that could own a shard. What was acknowledged is in the logs."""


class Team:
    """Shards and workers. Safe for several threads: each shard has a lock, and moving one stops no other."""

    def __init__(self, crew: Crew, n_shards: int, term: int) -> None:
        self.crew = crew
        self.n_shards = n_shards
        self.workers: list[str] = []
        self.owner: dict[int, str] = {}
        self.epoch = dict.fromkeys(range(n_shards), term * _TERM)
        self.pinned: dict[int, str] = {}
        self.n_recoveries = 0
        self._locks = [threading.RLock() for _ in range(n_shards)]
        # Taken in this order: a call of add_worker and its like, a shard, the tables of owners and epochs.
        self._staffing = threading.Lock()
        self._changing = threading.RLock()
        self._hired = 0

    # ---- who is there

    def begin(self, n_workers: int, models: Sequence[Any] | None) -> None:
        """Hire the first workers and give each its shards; `models` are what new shards begin with."""
        for _ in range(n_workers):
            self._hire()
        for shard, worker in workers_of(self.n_shards, self.workers).items():
            self._give(shard, worker, None if models is None else models[shard])

    def add_worker(self) -> str:
        """One worker more; the shards that are now its own move to it, one by one."""
        with self._staffing:
            name = self._hire()
            self._even_out()
            return name

    def remove_worker(self, name: str) -> None:
        """Move a worker's shards to the others, one by one, and stop it."""
        with self._staffing:
            with self._changing:
                if name not in self.workers or len(self.workers) == 1:
                    raise refuse(WHO, "worker", f"one of {', '.join(self.workers)}, and not the last", shown(name))
                self._let_go(name)
            self._even_out()
            self.crew.dismiss(name)

    def pin(self, shard: int, worker: str | None) -> None:
        """Keep a shard on one worker, with others making room; None lets it go again."""
        with self._staffing:
            with self._changing:
                if worker is None:
                    self.pinned.pop(shard, None)
                elif worker in self.workers:
                    self.pinned[shard] = worker
                else:
                    raise refuse(WHO, "worker", f"one of {', '.join(self.workers)}", shown(worker))
            self._even_out()

    def _even_out(self) -> None:
        for shard, worker in workers_of(self.n_shards, self.workers, self.pinned).items():
            with self._locks[shard], self._changing:
                if self.owner[shard] != worker and worker in self.workers:  # it may have been lost meanwhile
                    self._move(shard, worker)

    def _move(self, shard: int, worker: str) -> None:
        try:
            bare = self.crew.ask(self.owner[shard], "release", shard, self.epoch[shard])
        except Lost:
            bare = None  # the log has all that it acknowledged
        try:
            self._give(shard, worker, bare)
        except Lost:
            self.owner[shard] = worker  # whoever sends to it next finds it lost, and recovers it

    def _give(self, shard: int, worker: str, model: Any = None) -> None:
        """Make a worker the owner, under the next epoch."""
        self.epoch[shard] += 1
        self.crew.ask(worker, "own", shard, self.epoch[shard], model)
        self.owner[shard] = worker

    def _let_go(self, worker: str) -> None:
        self.workers = [name for name in self.workers if name != worker]
        self.pinned = {shard: name for shard, name in self.pinned.items() if name != worker}

    def _hire(self) -> str:
        name = f"worker-{self._hired}"
        self._hired += 1
        self.crew.hire(name)
        self.workers.append(name)
        return name

    # ---- what is sent

    @contextmanager
    def holding(self, shards: Iterable[int]) -> Iterator[None]:
        """No one else sends to these shards or moves them meanwhile."""
        with ExitStack() as stack:
            for shard in sorted(set(shards)):
                stack.enter_context(self._locks[shard])
            yield

    def stream(self, method: str, batches: Iterable[list[Parcel]], in_flight: int) -> Iterator[list[Any]]:
        """The answers to each batch of parcels, in order, with so many batches under way at a time and no more."""
        pending: deque[tuple[list[Parcel], list[tuple[list[int], str, Any]]]] = deque()
        for batch in batches:
            pending.append((batch, self._sent(method, batch)))
            if len(pending) >= in_flight:
                yield self._settled(method, pending)
        while pending:
            yield self._settled(method, pending)

    def ask_owner(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of a shard's owner; again, where it was lost. For calls that may be repeated."""
        with self._locks[shard]:
            for _ in range(TRIES):
                worker, epoch = self.owner[shard], self.epoch[shard]
                try:
                    return self.crew.ask(worker, method, shard, epoch, *arguments)
                except Lost:
                    self._recover(worker, {shard: epoch})
        raise self._given_up(shard)

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """The answers of all workers."""
        for _ in range(TRIES):
            with self._changing:
                workers, epochs = list(self.workers), dict(self.epoch)
            tickets = [(worker, self.crew.send(worker, method, *arguments)) for worker in workers]
            answers, lost = [], []
            for worker, ticket in tickets:
                try:
                    answers.append(self.crew.answer(ticket))
                except Lost:
                    lost.append(worker)
            if not lost:
                return answers
            for worker in lost:
                self._recover(worker, {s: epochs[s] for s, owner in self.owner.items() if owner == worker})
        raise self._given_up(0)

    def _sent(self, method: str, batch: list[Parcel]) -> list[tuple[list[int], str, Any]]:
        by_worker: dict[str, list[int]] = {}
        for place, parcel in enumerate(batch):
            by_worker.setdefault(self.owner[parcel.shard], []).append(place)
        return [
            (places, worker, self.crew.send(worker, method, [self._addressed(batch[place]) for place in places]))
            for worker, places in by_worker.items()
        ]

    def _addressed(self, parcel: Parcel) -> Parcel:
        return replace(parcel, epoch=self.epoch[parcel.shard])

    def _settled(self, method: str, pending: deque[Any]) -> list[Any]:
        """The answers to the oldest batch. Where its worker was lost, all that was sent to it is sent again."""
        batch, tickets = pending.popleft()
        answers: list[Any] = [None] * len(batch)
        unanswered: list[int] = []
        for places, _, ticket in tickets:
            try:
                for place, answer in zip(places, self.crew.answer(ticket), strict=True):
                    answers[place] = answer
            except Lost:
                unanswered += places
        if unanswered:
            self._drain(pending)
            for place in sorted(unanswered):
                answers[place] = self._insisted(method, batch[place])
            for number, (later, _) in enumerate(pending):
                pending[number] = later, self._sent(method, later)
        return answers

    def _drain(self, pending: deque[Any]) -> None:
        """Wait until nothing is under way: what is sent again must not overtake what is still on its way."""
        for _, tickets in pending:
            for _, _, ticket in tickets:
                try:
                    self.crew.answer(ticket)
                except Lost:
                    continue

    def _insisted(self, method: str, parcel: Parcel) -> Any:
        for _ in range(TRIES):
            worker, epoch = self.owner[parcel.shard], self.epoch[parcel.shard]
            try:
                return self.crew.ask(worker, method, [self._addressed(parcel)])[0]
            except Lost:
                self._recover(worker, {parcel.shard: epoch})
        raise self._given_up(parcel.shard)

    # ---- who is lost

    def _recover(self, worker: str, wanted: dict[int, int]) -> None:
        """Give the shards that a lost worker had to it again, or to the others, under new epochs.

        `wanted` are the shards and the epochs under which the caller found the worker lost: where another thread has
        recovered them meanwhile there is nothing left to do.
        """
        with self._changing:
            if wanted and all(self.epoch[shard] != epoch for shard, epoch in wanted.items()):
                return
            self.n_recoveries += 1
            if not self.crew.revive(worker, alone=self.workers == [worker]):
                self._let_go(worker)
                if not self.workers:
                    raise self._given_up(next(iter(wanted), 0))
            targets = workers_of(self.n_shards, self.workers, self.pinned)
            for shard, owner in list(self.owner.items()):
                if owner == worker:
                    try:
                        self._give(shard, targets[shard] if worker not in self.workers else worker)
                    except Lost:
                        return  # lost again: the next try finds it so

    def _given_up(self, shard: int) -> WorkersLost:
        return WorkersLost(
            refusal(WHO, "the workers", "such that one can own every shard", f"none for shard {shard}",
                    "What was acknowledged is in the logs: open the directory again, with a key send the block again.")
        )  # fmt: skip

    def close(self) -> None:
        self.crew.close()
