"""The continuous copy of a served model. The owner writes it; a standby follows it until it takes over.

`ServedModel` has a `Replication` if the service was started with --replicate-to or --standby-of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron.distributed.shard_options import is_sharded_host
from budgetron.durable import Host
from budgetron.durable.errors import StaleOwner
from budgetron.durable.replication.follower import Follower
from budgetron.durable.replication.replicator import DAY, Replicator
from budgetron.durable.replication.store import Store, open_store
from budgetron.errors import BudgetronError, input_error
from budgetron.service.logs import log


@dataclass(frozen=True)
class CopySettings:
    """Where the models are copied to, or which copy is followed."""

    url: str
    standby: bool = False
    every: float = 1.0  # seconds; 0: before each answer
    keep_days: float = 7.0
    take_over: bool = False  # at the start, claim the copy even if another directory wrote it last
    take_over_after: float | None = None  # seconds without a write of the owner to the copy; None: only on request


def copied_models(url: str) -> list[str]:
    """The names of the models that a service has copied to a URL."""
    store = open_store(url)
    names = [name for name in store.names("") if store.under(name).names("epochs")]
    if not names:
        raise input_error("serve", "--standby-of", "a URL to which serve --replicate-to has copied", repr(url),
                          "Start the owner first, with --replicate-to.")  # fmt: skip
    return names


class Replication:
    """The copy of one model. `open` and `take_over` may take long: call them in a thread."""

    def __init__(self, name: str, directory: Path, settings: CopySettings, snapshot_every: int) -> None:
        self._name, self._directory, self._settings, self._snapshot_every = name, directory, settings, snapshot_every
        self._store: Store = open_store(settings.url).under(name)
        self._host: Host | None = None
        self.replicator: Replicator | None = None
        self.follower: Follower | None = None
        self.on_taken_over: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def open(self, make_model: Callable[[], Any] | None) -> Host:
        """Open the model from its own directory or, as a standby, from the copy."""
        settings = self._settings
        if settings.standby:
            self.follower = Follower(
                self._directory, self._store, every=settings.every, snapshot_every=self._snapshot_every,
                silence=settings.take_over_after, on_silence=self._on_silence,
            )  # fmt: skip
            self._host = self.follower.host
            self.follower.start()
            return self._host
        if is_sharded_host(self._directory):
            raise input_error(
                "serve", "--replicate-to", "used without models in shards", f"the model {self._name!r}, in shards",
                "It cannot be copied continuously. Leave out --replicate-to, and copy the directory while the service "
                "is stopped.",
            )  # fmt: skip
        host = Host.open(self._directory, make_model, snapshot_every=self._snapshot_every)
        try:
            self._host = host
            replicator = Replicator(
                self._directory, self._store, every=settings.every, keep=settings.keep_days * DAY,
                take_over=settings.take_over, on_lost=self._on_lost,
            )  # fmt: skip
            replicator.copy()  # so that a wrong address is reported at the start
            self._start_copying(replicator)
        except BaseException:
            host.close()
            raise
        return host

    def _start_copying(self, replicator: Replicator) -> None:
        assert self._host is not None
        self.replicator = replicator
        replicator.start()
        if replicator.every == 0:
            self._host.before_answer = replicator.copy
        log("copying", model=self._name, url=self._store.url, epoch=replicator.claim.epoch)

    def _on_lost(self, error: StaleOwner) -> None:
        """Stop learning, because another process has taken over the copy, and labels learned here would be lost."""
        assert self._host is not None
        self._host.refuse_writes(error)
        log("taken_over", model=self._name, error=str(error))

    def _on_silence(self) -> None:
        try:
            self.take_over()
        except BudgetronError as error:
            log("fault", model=self._name, error=f"taking over failed: {error}")

    def take_over(self) -> bool:
        """Become the owner if this service is a standby. Returns whether it is the owner now."""
        with self._lock:
            if self.follower is None or self._host is None:
                # This service was not started as a standby, or has already taken over. In both cases it is the owner,
                # unless another process has taken over since. So a repeated request succeeds.
                return self.replicator is not None and not isinstance(self.replicator.error, StaleOwner)
            try:
                claimed = self.follower.take_over()
            except BaseException:
                self.follower.start()
                raise
            follower, self.follower = self.follower, None
            self.on_taken_over()
            replicator = Replicator(
                self._directory, self._store, every=self._settings.every, keep=self._settings.keep_days * DAY,
                claimed=claimed, parent=follower.applied, on_lost=self._on_lost,
            )  # fmt: skip
            # This process is the owner now, so copying must go on even if the first copy fails.
            self._start_copying(replicator)
            try:
                replicator.copy()
            except StaleOwner:
                raise
            except BudgetronError as error:
                log("warning", message=f"The copy is behind; copying will be retried. {error}")
            return True

    def state(self) -> dict[str, Any]:
        """The fields of the answer to GET copy, except `position`."""
        copier, follower = self.replicator, self.follower
        error = follower.error if follower is not None else None if copier is None else copier.error
        lost = isinstance(error, StaleOwner)
        epoch = follower.applied[0] if follower is not None else 0 if copier is None else copier.claim.epoch
        return {
            "role": "standby" if follower is not None else "former owner" if lost else "owner",
            "url": self._store.url,
            "epoch": epoch,
            "copied": None if copier is None else copier.position,
            "age_seconds": None if copier is None else round(copier.age, 3),
            "error": None if error is None else str(error),
        }

    def stop(self) -> None:
        """Copy the last records, or stop following. Call this before the host is closed."""
        if self.follower is not None:
            self.follower.stop()
        if self.replicator is not None:
            self.replicator.stop()
