"""A model that owns a directory: what it learned is on disk before it is acknowledged, and is applied exactly once.

    host = Host.open("spam", make_model=lambda: Budgetron(budget=500))
    learned = host.learn(X, y, tasks, key="batch-17")     # logged, forced to disk, learned, then returned
    host.predict(X, tasks)

No web server, no stream engine: any loop may use it. `budgetron serve` and the shards are two of them.
"""

from budgetron.durable.answers import Learned
from budgetron.durable.blocks import Request, StreamRows, row_digest, row_digests
from budgetron.durable.host import Host
from budgetron.durable.refusals import (
    AlreadyOwned,
    DamagedLog,
    DirectoryGone,
    DiskRefused,
    KeyReused,
    NothingLearned,
    StaleOwner,
)

__all__ = [
    "AlreadyOwned",
    "DamagedLog",
    "DirectoryGone",
    "DiskRefused",
    "Host",
    "KeyReused",
    "Learned",
    "NothingLearned",
    "Request",
    "StaleOwner",
    "StreamRows",
    "row_digest",
    "row_digests",
]
