"""`HostCopies`: the model of a host as a file, its replacement by one, and backups. A base class of `Host`."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from budgetron.durable.errors import NothingLearned
from budgetron.durable.host_state import HostState
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.durable.storage.snapshots import Snapshots


class HostCopies(HostState):
    """Methods of a host that write or read whole models."""

    _snapshots: Snapshots
    _commit_lock: threading.Lock

    def _check_open(self) -> None:
        raise NotImplementedError

    def _check_writable(self) -> None:
        raise NotImplementedError

    def _confirm(self) -> None:
        raise NotImplementedError

    def content(self) -> bytes:
        """The bytes of the current model file, as `save` would write it."""
        if not self._hosted.begun:
            raise NothingLearned
        with self._commit_lock:
            return self._hosted.content()

    def restore(self, content: bytes, swapping: AbstractContextManager[Any] | None = None) -> None:
        """Replace the model by that of a model file, on disk too. Stored answers to idempotency keys stay.

        `swapping` is a context manager entered only for the moment in which the new model takes the place of the old
        one. A caller that keeps statistics about the model can replace them in the same step.
        """
        hosted = hosted_model_from(content)
        with self._commit_lock:
            self._check_writable()
            self._snapshots.replace_model(hosted.content())
            with swapping or nullcontext():
                self._hosted = hosted
            self._confirm()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of model, log and keys to one file, while learning continues.

        To restore it, stop the process that owns the directory and run: budgetron restore PATH DIRECTORY
        """
        self._check_open()
        self._log.copy_to(Path(path))
