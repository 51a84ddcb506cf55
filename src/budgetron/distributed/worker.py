"""A worker: some shards, each a model of its own in a host of its own. The same class runs in a thread and as an actor.

Every message names the epoch under which the sender believes the worker to own the shard; another epoch is refused
here, and by the shard's log whatever this process believes of itself.
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

from budgetron.distributed.exchange import SharedPart, shared_part, with_shared_part
from budgetron.distributed.files import put
from budgetron.durable import Host, KeyReused, Learned, Request
from budgetron.durable.models import Kept, kept_of
from budgetron.errors import WorkerError, refusal
from budgetron.learners.saved import content_of

WRITERS = 8  # threads that write logs: they wait for the disk nearly all the time


class NotTheOwner(WorkerError):
    """A message for a shard that this worker does not own, or not under that epoch."""


@dataclass(frozen=True)
class Parcel:
    """Rows for one shard."""

    shard: int
    epoch: int
    X: Any
    tasks: Any
    y: Any = None
    weights: NDArray[np.float64] | None = None
    key: str | None = None


@dataclass(frozen=True)
class Facts:
    """What a shard says of itself."""

    shard: int
    epoch: int
    n_seen: int
    n_mistakes: int
    n_stored: int
    capacity: int | None
    memory_bytes: int
    stored_by_task: dict[Any, int] = field(default_factory=dict)


@dataclass
class _Held:
    epoch: int
    host: Host | None
    bare: Any = None  # the model, where no directory keeps it
    is_behind: bool = False  # something could not be learned: what comes after it must not be learned before it

    @property
    def model(self) -> Any:
        return self.bare if self.host is None else self.host.model


class Worker:
    """Shards by number. Calls come one at a time."""

    def __init__(self, name: str, directory: str | None, snapshot_every: int = 50_000) -> None:
        self.name = name
        self._directory = directory
        self._snapshot_every = snapshot_every
        self._held: dict[int, _Held] = {}
        self._turn = threading.Lock()  # one model learns at a time: a worker is one core
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix=f"{name}-log")

    def ping(self) -> dict[str, Any]:
        """That it is there, and where, and what its process has worked so far."""
        here = {"name": self.name, "pid": os.getpid(), "host": socket.gethostname(), "shards": sorted(self._held)}
        return {**here, "cpu_seconds": time.process_time()}

    def check_ready(self) -> None:
        """Raise what learning would fail with now, in any of the shards."""
        for held in self._held.values():
            if held.host is not None:
                held.host.check_ready()

    # ---- owning

    def own(self, shard: int, epoch: int, model: Any = None) -> int:
        """Take a shard over under a new epoch. A `model` is what a new shard begins with."""
        if shard in self._held:  # it stays to be looked at, should the log not be had again
            self._close(self._held[shard])
        if self._directory is None:
            self._held[shard] = _Held(epoch, None, model)
            return epoch
        folder = Path(self._directory) / folder_of(shard)
        host = Host.open(folder, model=model, epoch=epoch, snapshot_every=self._snapshot_every, turn=self._turn)
        if model is not None and host.position == 0:
            host.snapshot()  # what it began with is settled, whatever is given next time
        self._held[shard] = _Held(epoch, host)
        return epoch

    def release(self, shard: int, epoch: int) -> Any:
        """Give a shard up, snapshot written; the model itself, where no directory keeps it."""
        held = self._of(shard, epoch)
        self._close(held)
        del self._held[shard]
        return held.bare

    def close(self) -> None:
        for held in self._held.values():
            self._close(held)
        self._held = {}
        self._writers.shutdown()

    # ---- learning and predicting

    def learn(self, parcels: list[Parcel]) -> list[NDArray[np.float64]]:
        """The margins of each parcel, as they were before it was learned.

        Parcels of one shard share a commit; the shards write side by side, and each writes while another learns.
        """
        by_shard: dict[int, list[int]] = {}
        for place, parcel in enumerate(parcels):
            if self._of(parcel.shard, parcel.epoch).is_behind:  # until it is owned anew, and sent what it missed
                raise self._not_mine(parcel.shard, parcel.epoch, "one that it could not finish")
            by_shard.setdefault(parcel.shard, []).append(place)
        groups = [[parcels[place] for place in places] for places in by_shard.values()]
        helpers = self._writers.map if self._directory is not None and len(groups) > 1 else map
        answers: list[Any] = [None] * len(parcels)
        for places, learned in zip(by_shard.values(), list(helpers(self._learned, groups)), strict=True):
            for place, answer in zip(places, learned, strict=True):
                answers[place] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def remembered(self, stems: list[str]) -> dict[int, list[list[tuple[int, int]]]]:
        """What the shards here have learned under these keys: for each shard and key the cuts, in the order of rows.

        A cut is the number of its first row in the call, and how many rows it had. Shards that remember none of the
        keys are left out.
        """
        found = {}
        for shard, held in self._held.items():
            if held.host is not None:
                cuts = [_remembered(held.host, stem) for stem in stems]
                if any(cuts):
                    found[shard] = cuts
        return found

    def margins(self, parcels: list[Parcel]) -> list[NDArray[np.float64]]:
        """The margins of each parcel; nothing is learned."""
        held = [self._of(parcel.shard, parcel.epoch) for parcel in parcels]
        return [
            one.model.decision_function(parcel.X, tasks=parcel.tasks) for one, parcel in zip(held, parcels, strict=True)
        ]

    def forget(self, shard: int, epoch: int, task: Any) -> None:
        held = self._of(shard, epoch)
        (held.model if held.host is None else held.host).forget_task(task)

    def task_weights(self, shard: int, epoch: int, task: Any) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = self._of(shard, epoch).model.task_weights(task)
        return weights

    def _learned(self, parcels: list[Parcel]) -> list[Any]:
        """The margins, or the exception, of each parcel of one shard."""
        held = self._held[parcels[0].shard]
        host = held.host
        if host is None:
            return [self._learned_in_memory(parcel) for parcel in parcels]
        requests = [Request(p.X, p.y, p.tasks, p.key, None, p.weights) for p in parcels]
        answers = host.learn_many(requests, in_order=True)
        held.is_behind = any(isinstance(one, Exception) and not isinstance(one, KeyReused) for one in answers)
        return [one.margins if isinstance(one, Learned) else one for one in answers]

    def _learned_in_memory(self, parcel: Parcel) -> Any:
        weights = {} if parcel.weights is None else {"sample_weight": parcel.weights}
        return self._held[parcel.shard].bare.predict_then_learn(parcel.X, parcel.y, tasks=parcel.tasks, **weights)

    # ---- care

    def facts(self, by_task: bool = False) -> list[Facts]:
        """What every shard here says of itself."""
        return [_facts(shard, held, by_task) for shard, held in sorted(self._held.items())]

    def resize(self, shard: int, epoch: int, capacity: int) -> int:
        """Another capacity for a shard, on disk before this returns. Members that leave do so by the learner's rule."""
        held = self._of(shard, epoch)
        if held.host is None:
            held.bare.resize(capacity)
        else:
            smaller = kept_of(held.host.content())
            smaller.model.resize(capacity)
            held.host.restore(smaller.content())
        return int(held.model.capacity_)

    def shared_part(self, shard: int, epoch: int) -> SharedPart:
        """What the shard's tasks have in common."""
        model = self._of(shard, epoch).model
        with model._guard:
            return shared_part(model._engine)

    def receive(self, shard: int, epoch: int, part: SharedPart) -> None:
        """Put another shared part in place, on disk before this returns. Done twice it is as done once."""
        held = self._of(shard, epoch)
        kept = Kept(held.bare) if held.host is None else kept_of(held.host.content())
        with kept.model._guard:
            kept.model._engine = with_shared_part(kept.model._engine, part)
        if held.host is not None:
            held.host.restore(kept.content())

    def snapshot(self, shard: int, epoch: int) -> None:
        """Write the shard's model into its directory and trim its log."""
        held = self._of(shard, epoch)
        if held.host is not None:
            held.host.snapshot()

    def content(self, shard: int, epoch: int) -> bytes:
        """The shard as a model file."""
        held = self._of(shard, epoch)
        if held.host is not None:
            return held.host.content()
        with held.bare._guard:
            return content_of(held.bare)

    def save(self, shard: int, epoch: int, target: str, name: str) -> str:
        """Write the shard's model file to a folder or URL from here, not through the coordinator; its digest."""
        return put(target, name, self.content(shard, epoch))

    def _of(self, shard: int, epoch: int) -> _Held:
        held = self._held.get(shard)
        if held is None or held.epoch != epoch:
            raise self._not_mine(shard, epoch, "none" if held is None else f"epoch {held.epoch}")
        return held

    def _not_mine(self, shard: int, epoch: int, mine: str) -> NotTheOwner:
        accepted = f"for a shard it owns, under its epoch ({mine})"
        return NotTheOwner(refusal(f"worker {self.name}", "a message", accepted, f"shard {shard}, epoch {epoch}"))

    def _close(self, held: _Held) -> None:
        if held.host is not None:
            held.host.close()


def folder_of(shard: int) -> str:
    """The name of a shard's folder."""
    return f"shard-{shard:05d}"


def _remembered(host: Host, stem: str) -> list[tuple[int, int]]:
    prefix = f"{stem}/"
    found = [(key[len(prefix) :], len(learned.margins)) for key, learned in host.remembered(prefix).items()]
    return sorted((int(first), n) for first, n in found if first.isdecimal())  # "a/1/0" is of the key "a/1", not of "a"


def _facts(shard: int, held: _Held, by_task: bool) -> Facts:
    model = held.model
    stored: dict[Any, int] = {}
    if by_task:
        stored = {task: round(share * model.n_stored_) for task, share in model.budget_share_.items()}
    counts = model.n_seen_, model.n_mistakes_, model.n_stored_
    return Facts(shard, held.epoch, *counts, model.capacity_, model.memory_bytes_, stored)
