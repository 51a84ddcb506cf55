"""A named model of the service: its host, its writer, what waits for labels, and its figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from budgetron.host import Host
from budgetron.host.models import Kept
from budgetron.serve.pending import KEY, Pending
from budgetron.serve.predicting import Predictor
from budgetron.serve.settings import Settings
from budgetron.serve.watch import Watch
from budgetron.serve.writer import Writer


class Hosted:
    """One model at work. Made on the event loop, closed on it."""

    def __init__(self, name: str, host: Host, settings: Settings) -> None:
        self.name, self.host = name, host
        self.limits = settings.limits
        self.watch = Watch()
        self.pending = Pending(host.directory, settings.pending)
        self.pending.note_learned(host.remembered(KEY))
        self.writer = Writer(name, host, self.watch, settings.limits.waiting_examples)
        self.predictor = Predictor(self)

    @classmethod
    def open(cls, name: str, directory: Path, make_model: Callable[[], Any] | None, settings: Settings) -> Hosted:
        host = Host.open(directory, make_model, snapshot_every=settings.snapshot_every)
        return cls(name, host, settings)

    @property
    def kept(self) -> Kept:
        return self.host.kept

    def state(self) -> dict[str, Any]:
        """What the live page shows."""
        return self.watch.state(self.name, self.host.model, self.host.position)

    def close(self) -> None:
        self.writer.stop()
        self.pending.close()
        self.host.close()
