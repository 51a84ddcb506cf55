"""`Service`: opens, watches and closes the models of one process, and reports whether they can learn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from budgetron.distributed.autoscale import Autoscaler
from budgetron.service.audit import AuditLog
from budgetron.service.consuming.consumption import Consumption
from budgetron.service.consuming.nats_stream import NatsStream, StreamAddress
from budgetron.service.handlers.events import Events
from budgetron.service.http.addresses import Addresses
from budgetron.service.http.api_keys import ApiKeys
from budgetron.service.http.connections import Connections
from budgetron.service.http.problems import REASONS, problem_of
from budgetron.service.http.rates import Rates
from budgetron.service.logs import log
from budgetron.service.model.served_model import ServedModel, open_host
from budgetron.service.monitoring.metrics import Metrics
from budgetron.service.monitoring.slow_log import SlowLog
from budgetron.service.monitoring.traces import Traces
from budgetron.service.replication import Replication
from budgetron.service.scaling import INTERVAL, scale_once
from budgetron.service.settings import ServiceSettings

_KEY_INTERVAL = 2.0  # seconds between two checks of the key file
_READY_INTERVAL = 1.0  # seconds for which an answer of /readyz is reused, because each check writes to disk
_WRITER_INTERVAL = 1.0  # seconds between two checks whether a writer thread has ended


class Service:
    """All models of one process; `open` opens them.

    `make_models` maps the name of each model to a function that creates it, for a directory without a model; or to None
    if the directory must contain the model.
    """

    def __init__(self, settings: ServiceSettings, make_models: Mapping[str, Callable[[], Any] | None]) -> None:
        self.settings, self._make_models = settings.checked(), make_models
        self.models: dict[str, ServedModel] = {}  # without models that are still being recovered
        self.api_keys = ApiKeys(settings.keys) if settings.keys else None
        limits = settings.limits
        self.addresses = Addresses(settings.trusted_proxies)
        self.rates = Rates(limits.rate, limits.address_rate)
        self.connections = Connections(
            limits.connections, limits.seconds_to_send, limits.address_connections, self.addresses.is_trusted
        )
        self.slow_log = SlowLog(limits.slow_seconds)
        self.audit = AuditLog(settings.data)
        self.traces = Traces(settings.traces) if settings.traces else None
        self.consumptions: dict[str, Consumption] = {}  # models that learn from a stream of a broker
        self.metrics = Metrics(self.models, self.consumptions)
        self.events = Events(settings.limits.watchers)
        self.stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._ready_lock = asyncio.Lock()
        self._ready_until, self._failing = 0.0, dict[str, str]()

    @property
    def names(self) -> list[str]:
        """The names of all models, including those that are still being recovered."""
        return list(self._make_models)

    # ---- start and stop

    def start(self) -> None:
        """Start the periodic tasks."""
        periodic = (self._tick(), self._refresh_keys(), self._restart_ended_writers(), self._scale())
        self._tasks = [asyncio.create_task(task) for task in (self.connections.watch(), *periodic)]

    async def open(self) -> None:
        """Recover every model in a thread, so that health checks are answered meanwhile. Then consume streams."""
        for name, make_model in self._make_models.items():
            began = time.perf_counter()
            folder, copy = self.settings.data / name, self.settings.copy
            replication = None if copy is None else Replication(name, folder, copy, self.settings.snapshot_every)
            # In a thread also because of Ray: if Ray is started in the main thread, it replaces Python's handler of
            # SIGTERM, and `run` cannot install ours again.
            if replication is None:
                host = await asyncio.to_thread(open_host, folder, make_model, self.settings)
            else:
                host = await asyncio.to_thread(replication.open, make_model)
            try:
                model = ServedModel(name, host, self.settings, replication)
                await asyncio.to_thread(model.versions.open)
                self.models[name] = model
            except BaseException:
                if replication is not None:
                    replication.stop()
                host.close()
                raise
            log("model", model=name, learner=type(host.model).__name__, position=host.position,
                replayed=host.replayed_examples, seconds=round(time.perf_counter() - began, 3))  # fmt: skip

        for name, url in self.settings.consume:
            address, model = StreamAddress(url), self.models[name]
            consumption = Consumption(address.name, partial(NatsStream.connect, address), model, self.is_stopping)
            self.consumptions[name] = consumption
            self._tasks.append(asyncio.create_task(consumption.run()))

    def is_stopping(self) -> bool:
        return self.stopping

    def stop(self) -> None:
        """Begin to stop: streams of examples end after their current block, and subscriptions to events end at once."""
        self.stopping = True
        self.events.wake()

    async def close(self) -> None:
        """Learn the waiting requests, write snapshots, and release the directories."""
        self.stop()
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):  # a task failed earlier; the models must be closed nevertheless
                log("fault", error=f"background task: {result!r}"[:1000])
        for name, model in self.models.items():
            model.close()
            log("closed", model=name, position=model.host.position)
        self.audit.close()
        if self.traces is not None:
            await asyncio.to_thread(self.traces.close)

    # ---- periodic tasks

    async def _tick(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.events.interval)
            for model in self.models.values():
                model.statistics.tick(time.time())
            self.slow_log.tick()
            self.events.next_turn()

    async def _refresh_keys(self) -> None:
        if self.api_keys is None:
            return
        while True:
            await asyncio.sleep(_KEY_INTERVAL)
            before = self.api_keys.error
            self.api_keys.refresh()
            if self.api_keys.error and self.api_keys.error != before:
                log("keys", error=self.api_keys.error)

    async def _scale(self) -> None:
        if self.settings.max_workers is None:
            return
        scalers: dict[str, Autoscaler] = {}
        while True:
            await asyncio.sleep(INTERVAL)
            for name, model in list(self.models.items()):
                if name not in scalers:
                    scalers[name] = Autoscaler(self.settings.workers, self.settings.max_workers)
                await scale_once(model, scalers[name])

    async def _restart_ended_writers(self) -> None:
        while True:
            await asyncio.sleep(_WRITER_INTERVAL)
            for model in self.models.values():
                model.writer.restart_if_ended()

    # ---- readiness

    async def failing(self) -> dict[str, str]:
        """The models that cannot learn now, with the reason."""
        async with self._ready_lock:
            if (began := time.monotonic()) >= self._ready_until:
                reasons = {name: await self._reason(name) for name in self.names}
                self._failing = {name: reason for name, reason in reasons.items() if reason}
                # Counted from the start of the check, so that no reused answer is older than the interval.
                self._ready_until = began + _READY_INTERVAL
            return self._failing

    async def _reason(self, name: str) -> str:
        """Why a model cannot learn now; empty if it can. The check includes a small write to the disk of the model."""
        model = self.models.get(name)
        if model is None:
            return REASONS["recovering"]
        if model.writer.restart_if_ended():
            return REASONS["writer"]
        try:
            await asyncio.to_thread(model.host.check_ready)
        except Exception as error:
            problem = problem_of(error)
            return type(error).__name__ if problem is None else REASONS.get(problem.kind, problem.kind)
        return ""
