"""Who goes where: component → shard for the life of the model, shard → worker for as long as the worker is there.

Tasks of different components have similarity 0 and never influence each other, so a shard that holds whole components
is exact. Components are told apart by the number that the graph gives them, the same in every process:

    open graphs       shard = h(component) mod n          h: splitmix64
    explicit graphs   largest component first, each to the shard with the fewest tasks so far
    shard → worker    the worker with the largest h(shard, worker) that has room (rendezvous hashing, bounded): one
                      that comes or goes moves about its own share of the shards and no others
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import is_whole, refuse, refuse_type, shown
from budgetron.graphs import Clique, Explicit, TaskGraph

WHO = "ShardedModel"
Ints = NDArray[np.int64]


def spread(numbers: Ints) -> NDArray[np.uint64]:
    """splitmix64 of each number: neighbours end far apart, alike on every machine."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Located(Protocol):
    """Rows with their task's key and component."""

    @property
    def keys(self) -> Ints: ...
    @property
    def components(self) -> Ints: ...


class Placement:
    """The shard of every component: by hash or by size, and by pins where a task is named in them.

    >>> from budgetron import graphs
    >>> Placement(graphs.disconnected(), 4, {"ann": 0}).shards_of_tasks(["ann", "bob", "cid", "dan"]).tolist()
    [0, 0, 2, 0]
    >>> pairs = graphs.from_edges([(1, 2), (3, 4), (4, 5)], tasks=[9])
    >>> Placement(pairs, 2).shards_of_tasks([1, 2, 3, 4, 5, 9]).tolist()
    [1, 1, 0, 0, 0, 1]
    """

    def __init__(self, graph: TaskGraph, n_shards: int, pins: Mapping[Any, int] | None = None) -> None:
        self.graph, self.n_shards = graph, n_shards
        self.pins = dict(pins or {})
        if n_shards > 1 and has_one_component(graph):
            raise refuse(
                WHO, "shards", "1 where the graph has one component", f"{n_shards} for {shown(graph)}",
                "ReplicatedModel splits one component by groups of tasks, approximately.",
            )  # fmt: skip
        for task, shard in self.pins.items():
            if not is_whole(shard) or not 0 <= shard < n_shards:
                raise refuse(WHO, "pins", f"a shard from 0 to {n_shards - 1} a task", f"{shown(shard)} for {task!r}")
        self._pinned: dict[int, int] = {}
        for task, shard in self.pins.items():
            component = graph.locate_one(task)[1]
            if self._pinned.setdefault(component, int(shard)) != shard:
                raise refuse(
                    WHO, "pins", "one shard a component", f"two for the component of {task!r}",
                    "Tasks of one component stay together.",
                )  # fmt: skip

    def shards_of(self, block: Located) -> Ints:
        """The shard of each row of a block."""
        return self._shards_of(block.components)

    def _shards_of(self, components: Ints) -> Ints:
        if isinstance(self.graph, Explicit):
            return self._dealt[components]
        shards = (spread(components) % np.uint64(self.n_shards)).astype(np.int64)
        for component, shard in self._pinned.items():
            shards[components == component] = shard
        return shards

    def shards_of_tasks(self, tasks: Sequence[Hashable]) -> Ints:
        """The shard of each task."""
        return self._shards_of(self.graph.locate(tasks)[1])

    def graph_of(self, shard: int) -> TaskGraph:
        """What the learner of one shard must know of the graph: the same similarities, for its tasks."""
        if not isinstance(self.graph, Explicit) or self.n_shards == 1:
            return self.graph  # a closed form serves any task, and costs two numbers
        mine = np.flatnonzero(self._dealt[self.graph.component] == shard)
        return self.graph.restricted(mine) if len(mine) else self.graph

    @cached_property
    def _dealt(self) -> Ints:
        """The shard of each component of an explicit graph."""
        assert isinstance(self.graph, Explicit)
        sizes = np.bincount(self.graph.component)
        load = np.zeros(self.n_shards, dtype=np.int64)
        dealt = np.zeros(len(sizes), dtype=np.int64)
        for component, shard in self._pinned.items():
            dealt[component] = shard
            load[shard] += sizes[component]
        for component in np.argsort(-sizes, kind="stable").tolist():
            if component not in self._pinned:
                dealt[component] = int(np.argmin(load))
                load[dealt[component]] += sizes[component]
        return dealt


class GroupPlacement(Placement):
    """The replica of every task, by a hash of the task itself: one component is split."""

    def __init__(self, graph: TaskGraph, n_shards: int) -> None:
        if not isinstance(graph, Clique) or not has_one_component(graph):
            raise refuse(
                "ReplicatedModel", "graph", "complete(), with one component", shown(graph),
                "ShardedModel splits other graphs by component, exactly.",
            )  # fmt: skip
        self.graph, self.n_shards, self.pins = graph, n_shards, {}

    def shards_of(self, block: Located) -> Ints:
        return self._shards_of(block.keys)

    def shards_of_tasks(self, tasks: Sequence[Hashable]) -> Ints:
        return self._shards_of(self.graph.locate(tasks)[0])

    def _shards_of(self, components: Ints) -> Ints:
        return (spread(components) % np.uint64(self.n_shards)).astype(np.int64)


def workers_of(n_shards: int, workers: Sequence[str], pins: Mapping[int, str] | None = None) -> dict[int, str]:
    """The worker of every shard; a shard pinned to a worker stays there, the others even the load out.

    >>> before = workers_of(6, ["a", "b"])
    >>> after = workers_of(6, ["a", "b", "c"])
    >>> [(shard, before[shard], after[shard]) for shard in before if before[shard] != after[shard]]
    [(1, 'b', 'c'), (4, 'a', 'b'), (5, 'b', 'c')]
    """
    if not workers:
        raise refuse(WHO, "workers", "at least one", "none")
    names = np.array([_number(worker) for worker in workers], dtype=np.int64)
    place = {worker: number for number, worker in enumerate(workers)}
    chosen = {shard: place[worker] for shard, worker in (pins or {}).items() if worker in place}
    load = np.bincount(list(chosen.values()), minlength=len(workers))
    room = -(-n_shards // len(workers))
    for shard in range(n_shards):
        if shard not in chosen:
            scores = spread(names ^ spread(np.array([shard])).astype(np.int64))
            free = load < room
            chosen[shard] = int(np.argmax(np.where(free, scores, 0) if free.any() else scores))
            load[chosen[shard]] += 1
    return {shard: workers[chosen[shard]] for shard in range(n_shards)}


def checked_pins(pins: Any) -> dict[Any, int]:
    """The pins as given, task → shard."""
    if pins is None:
        return {}
    if not isinstance(pins, Mapping):
        raise refuse_type(WHO, "pins", "a mapping from task to shard", shown(pins))
    return dict(pins)


def _number(worker: str) -> int:
    return int.from_bytes(blake2b(worker.encode(), digest_size=8).digest(), "little", signed=True)


def has_one_component(graph: TaskGraph) -> bool:
    """Whether all tasks are related, directly or not: such a graph does not split exactly.

    >>> from budgetron import graphs
    >>> has_one_component(graphs.complete()), has_one_component(graphs.clusters({"ann": 1, "bob": 2}))
    (True, False)
    """
    if isinstance(graph, Clique):
        return graph.coupling != 0 and graph.mapped is None
    return isinstance(graph, Explicit) and int(graph.component.max()) == 0
