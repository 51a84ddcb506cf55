"""Delete the objects of a copy that no restore within the retention time needs. `Replicator` calls it."""

from __future__ import annotations

import time

from budgetron.durable.replication.history import epochs, last_head, read_runs
from budgetron.durable.replication.objects import epoch_folder, head_path, parse_name, run_folder
from budgetron.durable.replication.store import Store


def prune(store: Store, keep: float) -> None:
    """Delete the runs that are too old for a restore within the last `keep` seconds.

    The newest run that began more than `keep` seconds ago is kept, because a restore to the beginning of the retention
    time needs it. All runs before it are deleted.
    """
    limit = (time.time() - keep) * 1000
    old = [run.base for run in read_runs(store) if run.base.at <= limit]
    if not old:
        return
    oldest_kept = max((base.epoch, base.run) for base in old)
    newest = last_head(store)
    for epoch in epochs(store):
        for run in [int(name) for name in store.names(epoch_folder(epoch)) if name.isdecimal()]:
            if (epoch, run) < oldest_kept:
                folder = run_folder(epoch, run)
                for name in store.names(folder):
                    if parse_name(epoch, run, name) is not None:
                        store.delete(f"{folder}/{name}")
        if epoch < oldest_kept[0] and newest is not None and epoch != newest[0]:
            store.delete(head_path(epoch))
