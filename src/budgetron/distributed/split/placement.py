"""Placement of the components of the task graph in shards, and of shards on workers.

Component → shard is fixed for the life of the model; shard → worker changes as workers are added and removed. Tasks of
different components have similarity 0 and never influence each other. A shard has all tasks of its components, so
without a budget the shards together predict exactly as one model would. With a budget, each shard has its own share.

    explicit graphs   largest component first (after pinned ones), each to the shard with the fewest tasks so far
    all other graphs  shard = h(component) mod n, where n is the number of shards and h the hash splitmix64
    shard → worker    the worker with the largest h(shard, worker) among the workers that have fewer shards than the
                      mean, rounded up (rendezvous hashing with bounded loads). So adding or removing a worker moves
                      about as many shards as that worker owns

The hash is part of the file format: a later version must find every task in the shard that has learned it. The graph
numbers its components identically in every process.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import input_error, input_type_error, is_integer, shown
from budgetron.graphs import Clique, Explicit, TaskGraph

WHO = "ShardedModel"
Ints = NDArray[np.int64]


def splitmix64(numbers: Ints) -> NDArray[np.uint64]:
    """Hash each number with splitmix64, which gives the same values on every machine."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Located(Protocol):
    """Rows with their task ids and components."""

    @property
    def task_ids(self) -> Ints: ...
    @property
    def components(self) -> Ints: ...


class Placement:
    """Assigns components to shards: by hash or by size, except for tasks that are pinned to a shard.

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
            raise input_error(
                WHO, "shards", "1 if the graph has one component", f"{n_shards} for {shown(graph)}",
                "ReplicatedModel splits one component approximately, by groups of tasks.",
            )  # fmt: skip
        for task, shard in self.pins.items():
            if not is_integer(shard) or not 0 <= shard < n_shards:
                raise input_error(
                    WHO, "pins", f"a shard from 0 to {n_shards - 1} per task", f"{shown(shard)} for {task!r}"
                )
        self._pinned: dict[int, int] = {}
        for task, shard in self.pins.items():
            component = graph.locate_one(task)[1]
            if self._pinned.setdefault(component, int(shard)) != shard:
                raise input_error(
                    WHO, "pins", "one shard per component", f"two for the component of {task!r}",
                    "Pin all tasks of a component to the same shard.",
                )  # fmt: skip

    def shards_of(self, block: Located) -> Ints:
        """The shard of each row of a block."""
        return self._shards_of(block.components)

    def _shards_of(self, components: Ints) -> Ints:
        if isinstance(self.graph, Explicit):
            return self._shard_of_component[components]
        shards = (splitmix64(components) % np.uint64(self.n_shards)).astype(np.int64)
        for component, shard in self._pinned.items():
            shards[components == component] = shard
        return shards

    def shards_of_tasks(self, tasks: Sequence[Hashable]) -> Ints:
        """The shard of each task."""
        return self._shards_of(self.graph.locate(tasks)[1])

    def graph_of(self, shard: int) -> TaskGraph:
        """The part of the graph with the tasks of one shard, with unchanged similarities."""
        if not isinstance(self.graph, Explicit) or self.n_shards == 1:
            return self.graph  # a graph in closed form has no matrix to cut, so every shard gets the whole graph
        nodes = np.flatnonzero(self._shard_of_component[self.graph.component] == shard)
        return self.graph.restricted(nodes) if len(nodes) else self.graph  # a shard without tasks never gets a row

    @cached_property
    def _shard_of_component(self) -> Ints:
        """The shard of each component of an explicit graph."""
        assert isinstance(self.graph, Explicit)
        # Largest first to the least loaded shard: the usual greedy rule for balancing loads.
        sizes = np.bincount(self.graph.component)
        load = np.zeros(self.n_shards, dtype=np.int64)
        shard_of = np.zeros(len(sizes), dtype=np.int64)
        for component, shard in self._pinned.items():
            shard_of[component] = shard
            load[shard] += sizes[component]
        for component in np.argsort(-sizes, kind="stable").tolist():
            if component not in self._pinned:
                shard_of[component] = int(np.argmin(load))
                load[shard_of[component]] += sizes[component]
        return shard_of


class GroupPlacement(Placement):
    """Assigns each task to a replica by a hash of its task id, which splits one component."""

    def __init__(self, graph: TaskGraph, n_shards: int) -> None:
        if not isinstance(graph, Clique) or not has_one_component(graph):
            raise input_error(
                "ReplicatedModel", "graph", "complete(), with one component", shown(graph),
                "Use ShardedModel for other graphs: it splits them exactly.",
            )  # fmt: skip
        self.graph, self.n_shards, self.pins = graph, n_shards, {}

    # The methods of the base class take components. Here task ids are passed to them instead.

    def shards_of(self, block: Located) -> Ints:
        return self._shards_of(block.task_ids)

    def shards_of_tasks(self, tasks: Sequence[Hashable]) -> Ints:
        return self._shards_of(self.graph.locate(tasks)[0])

    def _shards_of(self, components: Ints) -> Ints:
        return (splitmix64(components) % np.uint64(self.n_shards)).astype(np.int64)


def workers_of(n_shards: int, workers: Sequence[str], pins: Mapping[int, str] | None = None) -> dict[int, str]:
    """Assign every shard to a worker, so that all workers own about equally many. Pinned shards go to their worker.

    >>> before = workers_of(6, ["a", "b"])
    >>> after = workers_of(6, ["a", "b", "c"])
    >>> [(shard, before[shard], after[shard]) for shard in before if before[shard] != after[shard]]
    [(1, 'b', 'c'), (4, 'a', 'b'), (5, 'b', 'c')]
    """
    if not workers:
        raise input_error(WHO, "workers", "at least one", "none", "Pass workers=1 or more.")
    hashes = np.array([_hash_of(worker) for worker in workers], dtype=np.int64)
    number_of = {worker: number for number, worker in enumerate(workers)}
    worker_number = {shard: number_of[worker] for shard, worker in (pins or {}).items() if worker in number_of}
    load = np.bincount(list(worker_number.values()), minlength=len(workers))
    max_load = -(-n_shards // len(workers))  # shards per worker, rounded up
    for shard in range(n_shards):
        if shard not in worker_number:
            scores = splitmix64(hashes ^ splitmix64(np.array([shard])).astype(np.int64))
            free = load < max_load
            worker_number[shard] = int(np.argmax(np.where(free, scores, 0) if free.any() else scores))
            load[worker_number[shard]] += 1
    return {shard: workers[worker_number[shard]] for shard in range(n_shards)}


def check_pins(pins: Any) -> dict[Any, int]:
    """Validate the pins: a mapping from task to shard."""
    if pins is None:
        return {}
    if not isinstance(pins, Mapping):
        raise input_type_error(WHO, "pins", "a mapping from task to shard", shown(pins))
    return dict(pins)


def _hash_of(worker: str) -> int:
    return int.from_bytes(blake2b(worker.encode(), digest_size=8).digest(), "little", signed=True)


def has_one_component(graph: TaskGraph) -> bool:
    """Whether all tasks are related, directly or indirectly. Such a graph cannot be split exactly.

    >>> from budgetron import graphs
    >>> has_one_component(graphs.complete()), has_one_component(graphs.clusters({"ann": 1, "bob": 2}))
    (True, False)
    """
    if isinstance(graph, Clique):
        return graph.coupling != 0 and graph.mapped is None
    return isinstance(graph, Explicit) and int(graph.component.max()) == 0
