"""Corrections: change the label of an example that is still in the log, or withdraw the example.

The model is computed again in memory. The last snapshot before the record is loaded. If there is no such snapshot, a
new model is created. This model learns the later records of the log again, with the changed record among them. Then one
transaction writes the changed record, the computed model as a snapshot, and a line of the audit trail. After a crash,
either all three are on disk or none. Of the old snapshots, only the one from which the replay began stays.

`Host.correct` and `Host.withdraw` call this under the commit lock. Meanwhile, learning waits, and predictions use the
old model. The stored answers to idempotency keys do not change, so a retry of the corrected request learns nothing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from sklearn.base import clone

from budgetron.durable import blocks
from budgetron.durable.errors import NotInLog, damaged_log
from budgetron.durable.hosted_model import HostedModel, hosted_model_from
from budgetron.durable.storage.log import Log, Record
from budgetron.durable.storage.log_schema import TRAIL_CHECKSUM
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import InputError, error_message, input_error, is_integer, shown
from budgetron.persist.names import NoJSON, decode_name, encode_name

WHO = "Host"
WITHDRAWN: Any = object()  # passed in place of a label: the example is withdrawn
MAX_TEXT = 500  # the longest `who` and `reason`, in characters
_SET_CHECKSUM = f"UPDATE correction SET crc = {TRAIL_CHECKSUM} WHERE number = ?"


@dataclass(frozen=True)
class Correction:
    """A line of the audit trail of corrections.

    `new` is None if the example was withdrawn. `who` is the name of the API key, in a service. `at` is the time in
    seconds since 1970.
    """

    number: int
    position: int  # the number of the record
    row: int  # the index of the example in the record as it was logged
    old: Any
    new: Any
    withdrawn: bool
    who: str
    reason: str
    at: float


@dataclass(frozen=True)
class PreparedCorrection:
    """A correction that is computed in memory, but not yet written."""

    hosted: HostedModel
    base: int  # the number of the snapshot from which the replay began; 0 if it began with a new model
    position: int
    block: bytes | None  # the changed record; None if its only example was withdrawn
    line: tuple[Any, ...]  # the new line of the audit trail
    replayed_examples: int
    began: float


@dataclass(frozen=True)
class CorrectionResult:
    """The acknowledgement of a correction.

    The correction is on disk, and the model is as if it had learned the correct label, or had never learned the
    withdrawn example. For a retry, `replayed_examples`, `seconds` and `snapshot` are 0, because nothing was replayed.
    """

    correction: Correction
    replayed_examples: int
    seconds: float
    snapshot: int  # the number of the snapshot from which the replay began; 0 if it began with a new model


class Corrections:
    """Corrects records of one host."""

    def __init__(self, log: Log, snapshots: Snapshots) -> None:
        self._log, self._snapshots = log, snapshots

    def find_repeated(self, position: Any, row: Any, label: Any) -> CorrectionResult | None:
        """The acknowledgement of the example's last correction, if this call is a retry of it; otherwise None.

        Without `row`, the record must have one example. A record that has left the log is assumed to have one.
        """
        # Invalid arguments are not a retry: return None, and `prepare` rejects them.
        if not is_integer(position) or not 1 <= position <= self._log.position:
            return None
        if row is None and self._has_several_examples(int(position)):
            return None
        row = 0 if row is None else row
        if not is_integer(row) or not 0 <= row < 2**31:
            return None
        query = "SELECT max(number) FROM correction WHERE position = ? AND place = ?"
        (number,) = self._log.db.one(query, (int(position), int(row)))
        last = None if number is None else self.trail(1, number)[0]
        if last is None or last.withdrawn != (label is WITHDRAWN):
            return None
        if not last.withdrawn and not is_same_label(last.new, label):
            return None
        return CorrectionResult(last, 0, 0.0, 0)

    def prepare(self, model: Any, position: Any, row: Any, label: Any, who: str, reason: str) -> PreparedCorrection:
        """Compute the model with another label, or without the example. The current `model` does not change."""
        began = time.perf_counter()
        for name, text in (("who", who), ("reason", reason)):
            if not isinstance(text, str) or len(text) > MAX_TEXT:
                raise input_error(WHO, name, f"a text of at most {MAX_TEXT} characters", shown(text))
        payload = self._read_block(position)
        index, row, old = self._locate(payload, position, row)
        if label is not WITHDRAWN:
            model._classes.code(model._who, label)  # rejects a label that the model does not know
        if label is not WITHDRAWN and is_same_label(old, label):
            raise InputError(f"{WHO}: the example already has the label {shown(label)}.")
        try:
            new_text = None if label is WITHDRAWN else msgspec.json.encode(encode_name(label))
            old_text = msgspec.json.encode(encode_name(old))
        except NoJSON:
            raise input_error(WHO, "label", "a plain value such as a string or a number", shown(label)) from None
        changed = blocks.with_label(payload, index, None if label is WITHDRAWN else label, label is WITHDRAWN)
        hosted, base, n = self._replay(model, position, changed)
        line = (position, row, old_text, new_text, who, reason, time.time())
        return PreparedCorrection(hosted, base, position, changed, line, n, began)

    def count(self) -> int:
        """The number of lines of the audit trail."""
        return int(self._log.db.one("SELECT count(*) FROM correction")[0])

    def trail(self, limit: int = 1000, last: int = 2**62) -> list[Correction]:
        """At most `limit` lines of the audit trail, newest first. Lines after number `last` are left out."""
        query = (
            "SELECT number, position, place, old, new, who, reason, at FROM correction WHERE number <= ? "
            "ORDER BY number DESC LIMIT ?"
        )
        return [
            Correction(number, position, row, _decode_label(old), _decode_label(new), new is None, *rest)
            for number, position, row, old, new, *rest in self._log.db.rows(query, (last, limit))
        ]

    # ---- the record

    def _read_block(self, position: Any) -> bytes:
        """Read the bytes of a record. Raises an error if it cannot be corrected."""
        log = self._log
        if not is_integer(position) or not 1 <= position <= log.position:
            raise input_error(WHO, "position", f"the number of a record, from 1 to {log.position}", shown(position))
        row = log.db.one("SELECT block, crc FROM log WHERE number = ?", (int(position),))
        if row is None and log.db.one("SELECT 1 FROM log WHERE number < ?", (int(position),)):
            # The log is trimmed from its beginning. An earlier record is still there, so this one was not trimmed: the
            # model rejected it.
            raise _not_learned(position)
        if row is None:
            raise NotInLog(
                error_message(WHO, "position", "a record that is still in the log", f"{position}, part of a snapshot",
                              "It can no longer be removed from the model. Learn the correct label as a new example.")
            )  # fmt: skip
        block, crc = row
        if block is None or position in log.unwritten.rejected:
            raise _not_learned(position)
        if zlib.crc32(block, int(position) & 0xFFFFFFFF) != crc:
            raise damaged_log(log.path, f"record {position} does not match its checksum")
        return bytes(block)

    def _withdrawn_rows(self, position: int) -> list[int]:
        query = "SELECT place FROM correction WHERE position = ? AND new IS NULL ORDER BY place"
        return [row for (row,) in self._log.db.rows(query, (position,))]

    def _has_several_examples(self, position: int) -> bool:
        """Whether a record has, or had before withdrawals, more than one example. False if it has left the log."""
        record = self._log.db.one("SELECT block FROM log WHERE number = ?", (position,))
        if record is None:
            return False
        labels = None if record[0] is None else blocks.decode_block(record[0]).examples.labels
        return (0 if labels is None else len(labels)) + len(self._withdrawn_rows(position)) > 1

    def _locate(self, payload: bytes, position: int, row: Any) -> tuple[int, int, Any]:
        """The index of an example in its record now, its index when the record was logged, and its label.

        The two differ if earlier examples of the same record were withdrawn.
        """
        logged = blocks.decode_block(payload)
        if logged.kind in ("forget", "point"):
            what = "forgets a task" if logged.kind == "forget" else "sets the operating point"
            raise input_error(WHO, "position", "a record with examples", f"{position}, which {what}")
        withdrawn_rows = self._withdrawn_rows(position)
        labels = logged.examples.labels
        assert labels is not None
        n = len(labels) + len(withdrawn_rows)
        if row is None and n > 1:
            raise input_error(WHO, "row", f"an integer from 0 to {n - 1}, because the record has {n} examples", "None")
        row = 0 if row is None else row
        if not is_integer(row) or not 0 <= row < n:
            raise input_error(WHO, "row", f"the index of an example of the record, 0 to {n - 1}", shown(row))
        if row in withdrawn_rows:
            raise input_error(WHO, "row", "an example that was not withdrawn", shown(row))
        index = int(row) - sum(other < row for other in withdrawn_rows)
        return index, int(row), labels[index].item() if hasattr(labels[index], "item") else labels[index]

    # ---- learning again

    def _replay(self, model: Any, position: int, changed: bytes | None) -> tuple[HostedModel, int, int]:
        """Learn the log again with the changed record.

        Returns the model, the number of the snapshot from which the replay began (0 for a new model), and the number of
        examples.
        """
        hosted, base = self._base_model(model, position)
        n = 0
        for record in self._records_after(base):
            block = changed if record.number == position else record.block
            if block is None or record.number in self._log.unwritten.rejected:
                continue
            try:
                n += len(hosted.learn(blocks.decode_block(block)))
            except InputError as error:
                if record.number == position:
                    raise
                reason = str(error).rstrip(".")
                message = f"{WHO}: the correction is not possible, because of record {record.number}: {reason}."
                raise InputError(message) from None
        if not hosted.is_fitted or not np.array_equal(hosted.model.classes_, model.classes_):
            raise InputError(
                f"{WHO}: the correction would remove one of the classes {shown(model.classes_.tolist())}, because the "
                "example is the only one of its class in the first block, which determines the classes. Learn the "
                "correct label as a new example."
            )
        return hosted, base, n

    def _base_model(self, model: Any, position: int) -> tuple[HostedModel, int]:
        """The model from which a replay begins, and the number of the last record that it has learned.

        This is the last snapshot before the record at `position`, or a new model if the log is complete.
        """
        for number in self._snapshots.numbers:
            if number < position:
                return hosted_model_from(self._snapshots.read(number)), number
        if self._log_is_complete():
            fresh = clone(model)
            if model.operating_point is not None:  # `blocks.encode_point` says why a replay may remove it
                fresh.operating_point = model.operating_point.fresh()
            return HostedModel(fresh), 0
        raise NotInLog(
            f"{WHO}: record {position} cannot be corrected, because the oldest snapshot contains it, and the log does "
            "not have everything that the model learned before: the model was already trained when it was hosted, or "
            "the log was trimmed. Learn the correct label as a new example."
        )

    def _log_is_complete(self) -> bool:
        """Whether a replay of the log from a new model gives the current model.

        The log must have everything that the oldest snapshot has learned. A gap in the record numbers does not prove
        that learned examples are missing, because records that were rejected before the first snapshot are deleted. So
        the examples are counted.
        """
        oldest = self._snapshots.numbers[-1]
        hosted = hosted_model_from(self._snapshots.read(oldest))
        if hosted.columns is not None:  # a new model would not have the columns, which the log does not contain
            return False
        learned = [record.block for record in self._records_after(0) if record.number <= oldest
                   and record.block is not None and record.number not in self._log.unwritten.rejected]  # fmt: skip
        labels = (blocks.decode_block(block).examples.labels for block in learned)
        return int(hosted.model.n_seen_) == sum(0 if y is None else len(y) for y in labels)

    def _records_after(self, base: int) -> Iterator[Record]:
        """The records of the log after a snapshot, or all of them if `base` is 0."""
        return self._log.records_after(base, gaps_until=self._snapshots.numbers[-1])

    # ---- writing

    def write(self, prepared: PreparedCorrection) -> CorrectionResult:
        """Write a correction in one transaction. If it fails, nothing has changed."""
        log, number, block = self._log, prepared.position, prepared.block
        content = prepared.hosted.content()
        with log.writing():
            log.write_unwritten()
            crc = zlib.crc32(block or b"", number & 0xFFFFFFFF)
            log.db.execute("UPDATE log SET block = ?, crc = ? WHERE number = ?", (block, crc, number))
            names = "position, place, old, new, who, reason, at"
            log.db.execute(f"INSERT INTO correction ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", prepared.line)
            (latest,) = log.db.one("SELECT max(number) FROM correction")
            log.db.execute(_SET_CHECKSUM, (latest,))
            self._snapshots.put_corrected(content, prepared.base)
            (line,) = self.trail(1)  # inside the transaction, because after its end nothing may fail
        log.note_written(log.position)
        self._snapshots.note_corrected(prepared.base)
        return CorrectionResult(line, prepared.replayed_examples, time.perf_counter() - prepared.began, prepared.base)


def _not_learned(position: int) -> InputError:
    return input_error(WHO, "position", "a record that was learned", f"{position}, which was rejected or withdrawn")


def is_same_label(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)  # 1 and True are equal in Python, but different labels


def _decode_label(text: bytes | None) -> Any:
    if text is None:  # the new label of an example that was withdrawn
        return None
    value = msgspec.json.decode(text)
    return decode_name(value) if isinstance(value, list) else value
