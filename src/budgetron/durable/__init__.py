"""Durable learning: a model with a write-ahead log and snapshots in its own directory.

Every example is on disk before it is acknowledged. A request that is sent again with the same idempotency key is not
learned again, as long as the key is stored.

    host = Host.open("spam", make_model=lambda: Budgetron(budget=500))
    learned = host.learn(X, y, tasks, key="batch-17")     # logged, forced to disk, learned, then returned
    host.predict(X, tasks)

`budgetron serve` and the workers of `budgetron.distributed` are built on `Host`. Any program can use `Host`, because it
needs neither a web server nor a stream processor. This package must not import the service or the distributed models.
"""

from budgetron.durable.corrections import Correction, CorrectionResult
from budgetron.durable.errors import (
    AlreadyOwned,
    DamagedLog,
    DirectoryGone,
    DiskRefused,
    KeyReused,
    NotCopied,
    NothingLearned,
    NotInLog,
    StaleOwner,
    StandbyOnly,
)
from budgetron.durable.host import Host
from budgetron.durable.hosted_model import HostedModel
from budgetron.durable.model_host import ModelHost
from budgetron.durable.repairs.repair import repair
from budgetron.durable.repairs.restore import restore
from budgetron.durable.repairs.verify import verify
from budgetron.durable.replication.follower import Follower
from budgetron.durable.replication.replicator import Replicator
from budgetron.durable.replication.store import open_store
from budgetron.durable.requests import Learned, Request, StreamRows, row_digest, row_digests

__all__ = [
    "AlreadyOwned",
    "Correction",
    "CorrectionResult",
    "DamagedLog",
    "DirectoryGone",
    "DiskRefused",
    "Follower",
    "Host",
    "HostedModel",
    "KeyReused",
    "Learned",
    "ModelHost",
    "NotCopied",
    "NotInLog",
    "NothingLearned",
    "Replicator",
    "Request",
    "StaleOwner",
    "StandbyOnly",
    "StreamRows",
    "open_store",
    "repair",
    "restore",
    "row_digest",
    "row_digests",
    "verify",
]
