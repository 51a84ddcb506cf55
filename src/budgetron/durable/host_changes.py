"""`HostChanges`: corrections of labels, replacement of the model, and backups.

A base class of `Host`. Every change happens between two commits, and is on disk before the model changes.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from budgetron.durable.corrections import WITHDRAWN, Correction, CorrectionResult
from budgetron.durable.errors import NothingLearned
from budgetron.durable.host_reads import HostReads
from budgetron.durable.hosted_model import hosted_model_from


class HostChanges(HostReads):
    """Corrections, model files and backups of a host."""

    # ---- corrections

    def correct(
        self, position: int, label: Any, row: int | None = None, *, who: str = "", reason: str = ""
    ) -> CorrectionResult:
        """Correct a label that is still in the log. Afterwards the model is as if it had learned the correct label.

        Parameters
        ----------
        position, row : int
            The number of the record (`Learned.position`), and the example in it, from 0. A record of one example needs
            no `row`.
        label : str, int, float or bool
            The correct label.
        who, reason : str
            For the audit trail, see `corrections`.

        The last snapshot before the record is loaded, and all later records are learned again. If there is no such
        snapshot, the log is learned again from its beginning, with a new model. Meanwhile learning waits and
        predictions use the old model. After a crash, the correction is on disk completely or not at all.

        Raises
        ------
        NotInLog
            If the record is no longer in the log, or the log does not have everything that the model learned before it.
            Nothing changes.
        InputError
            If there is no such example, if it already has this label, or if the correction is not possible, for example
            because the model rejects the label. Nothing changes.
        """
        return self._change(position, row, label, who, reason)

    def withdraw(self, position: int, row: int | None = None, *, who: str = "", reason: str = "") -> CorrectionResult:
        """Remove an example from the model, as if it had never been learned. Parameters and errors as for `correct`."""
        return self._change(position, row, WITHDRAWN, who, reason)

    def corrections(self, limit: int = 1000) -> list[Correction]:
        """At most `limit` lines of the audit trail of corrections, newest first."""
        state = self._state
        with state.commit_lock:
            state.check_open()
            return state.corrections.trail(limit)

    def record_of(self, key: str) -> int | None:
        """The number of the record that was learned under an idempotency key; None if the key is not stored."""
        with self._state.commit_lock:
            return self._state.log.record_of(key)

    def _change(self, position: int, row: int | None, label: Any, who: str, reason: str) -> CorrectionResult:
        """Correct an example, or withdraw it if `label` is `WITHDRAWN`, and replace the model."""
        state = self._state
        with state.commit_lock:
            state.check_writable()
            if not state.hosted.is_fitted:
                raise NothingLearned
            earlier = state.corrections.find_repeated(position, row, label)
            if earlier is not None:
                state.confirm()  # the first attempt may have failed here
                return earlier
            with state.learning_lock:
                prepared = state.corrections.prepare(state.hosted.model, position, row, label, who, reason)
            with state.replacing_model():
                corrected = state.corrections.write(prepared)
                state.n_corrections += 1
                state.hosted = prepared.hosted
            state.confirm()
            return corrected

    # ---- model files and backups

    def content(self) -> bytes:
        """The bytes of the current model file, as `save` would write it."""
        if not self._state.hosted.is_fitted:
            raise NothingLearned
        with self._state.commit_lock:
            return self._state.hosted.content()

    def restore(self, content: bytes, swapping: AbstractContextManager[Any] | None = None) -> None:
        """Replace the model by a model file, in memory and on disk. Stored answers to idempotency keys stay.

        `swapping` is a context manager that is entered only while the new model takes the place of the old one. A
        caller that keeps statistics about the model can use it to replace them at the same moment.
        """
        hosted, state = hosted_model_from(content), self._state
        with state.commit_lock:
            state.check_writable()
            own_content = hosted.content()
            with state.replacing_model():
                state.snapshots.replace_model(own_content)
                with swapping or nullcontext():
                    state.hosted = hosted
            state.confirm()

    def confirm(self) -> None:
        """Wait until the copy of the model, if there is one, contains the last commit; or raise `NotCopied`."""
        state = self._state
        with state.commit_lock:
            state.check_writable()
            state.confirm()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the model, the log and the idempotency keys to one file, while learning continues.

        To restore it, stop the process that owns the directory and run: budgetron restore PATH DIRECTORY
        """
        self._state.check_not_closed()
        self._state.log.copy_to(Path(path))
