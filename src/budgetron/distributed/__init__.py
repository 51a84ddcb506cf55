"""Distributed models: one model in shards or replicas, in threads of one process or on a Ray cluster.

`ShardedModel` splits a model by connected component of the task graph, which loses nothing that tasks learn from each
other. `ReplicatedModel` splits one component approximately. The command line uses both, and the service uses
`ShardedModel`. This package must not import the command line or the service.

>>> from budgetron import Forgetron, distributed, graphs
>>> model = distributed.ShardedModel(Forgetron(budget=4000, graph=graphs.disconnected()), shards=16, workers=2)
>>> model.shards, model.backend
(16, 'local')
"""

from budgetron.distributed.directory.locations import class_at, is_in_shards, is_live
from budgetron.distributed.errors import InShards, Unfinished
from budgetron.distributed.introspection import Shard
from budgetron.distributed.replicas.replicated import ReplicatedModel
from budgetron.distributed.sharded import ShardedModel
from budgetron.distributed.split.placement import Placement, has_one_component, workers_of
from budgetron.distributed.workers.worker_group import WorkersLost

__all__ = [
    "InShards",
    "Placement",
    "ReplicatedModel",
    "Shard",
    "ShardedModel",
    "Unfinished",
    "WorkersLost",
    "class_at",
    "has_one_component",
    "is_in_shards",
    "is_live",
    "workers_of",
]
