"""Add and remove workers of models in shards, depending on the writer's queue: `serve --max-workers`."""

from __future__ import annotations

import asyncio

from budgetron.distributed.autoscale import Autoscaler
from budgetron.errors import BudgetronError
from budgetron.service.logs import log
from budgetron.service.model.served_model import ServedModel

INTERVAL = 1.0  # seconds between two observations of the queue


async def scale_once(model: ServedModel, scaler: Autoscaler) -> int:
    """Observe the queue of the writer, and add or remove a worker if the scaler says so. Returns the change."""
    if not model.in_shards or not model.hosted.is_fitted:
        return 0
    sharded = model.host.model
    try:
        workers = [worker["name"] for worker in await asyncio.to_thread(lambda: sharded.workers_)]
        waiting = model.writer.waiting
        change = scaler.change(waiting, len(workers))
        if change > 0:
            await asyncio.to_thread(sharded.add_worker)
        elif change < 0:
            await asyncio.to_thread(sharded.remove_worker, workers[-1])
    except BudgetronError as error:  # for example, the cluster has no free CPU: the model keeps its workers
        log("workers", model=model.name, error=str(error)[:1000])
        return 0
    if change:
        log("workers", model=model.name, workers=len(workers) + change, waiting=waiting)
    return change
