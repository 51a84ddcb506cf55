"""`HostCorrections`: correct or withdraw labels that are still in the log of a host. A base class of `Host`.

The work is done by `corrections`. This file orders it: between two commits, and written to the log before the model
changes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from budgetron.durable.corrections import WITHDRAWN, Corrected, Correction, Corrections
from budgetron.durable.errors import NothingLearned
from budgetron.durable.host_copies import HostCopies
from budgetron.errors import StorageError


class HostCorrections(HostCopies):
    """Methods of a host that change what was learned."""

    n_corrections: int
    _corrections: Corrections
    _learning_lock: AbstractContextManager[Any]
    _is_consistent: bool

    def correct(
        self, position: int, label: Any, row: int | None = None, *, who: str = "", reason: str = ""
    ) -> Corrected:
        """Correct a wrong label that is still in the log: the model becomes as if the right one had been learned.

        Parameters
        ----------
        position, row : int
            The number of the record (`Learned.position`), and the example in it, from 0. A record of one example needs
            no `row`.
        label : the right one
        who, reason : str
            For the audit trail, see `corrections`.

        The records after the last snapshot before it are learned again; meanwhile learning waits and predictions use
        the old model. A restart or a crash leaves the correction as a whole or not at all.

        Raises
        ------
        NotInLog
            If the record is part of a snapshot and has left the log. Nothing changes.
        InputError
            If there is no such example, or the model rejects the label. Nothing changes.
        """
        return self._change(position, row, label, who, reason)

    def withdraw(self, position: int, row: int | None = None, *, who: str = "", reason: str = "") -> Corrected:
        """Take an example that is still in the log out of the model, as if it had never been learned; see `correct`."""
        return self._change(position, row, WITHDRAWN, who, reason)

    def corrections(self, limit: int = 1000) -> list[Correction]:
        """The audit trail of corrections, newest first."""
        with self._commit_lock:
            self._check_open()
            return self._corrections.trail(limit)

    def _change(self, position: int, row: int | None, label: Any, who: str, reason: str) -> Corrected:
        with self._commit_lock:
            self._check_writable()
            if not self._hosted.begun:
                raise NothingLearned
            before = self._corrections.repeated(position, row, label)
            if before is not None:
                return before
            with self._learning_lock:
                prepared = self._corrections.prepare(self._hosted.model, position, row, label, who, reason)
            self._is_consistent = False  # The log is ahead of the model until it is replaced.
            try:
                corrected = self._corrections.write(prepared)
                self.n_corrections += 1
                self._hosted = prepared.hosted
            except StorageError:
                self._is_consistent = True  # nothing was written
                raise
            self._is_consistent = True
            self.snapshot_error = None
            self._confirm()
            return corrected

    def record_of(self, key: str) -> int | None:
        """The number of the record that was learned under an idempotency key; None if the key is not stored."""
        with self._commit_lock:
            return self._log.record_of(key)
