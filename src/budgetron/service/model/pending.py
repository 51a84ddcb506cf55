"""Remembered predictions, which clients may label later: a bounded table in a separate file beside the log.

A prediction stays in the table after it was labelled. The number of predictions and their bytes are bounded, so that a
client that may only predict cannot fill the disk. When the table is full, the API key that uses most of it loses its
oldest predictions. So no client can evict the predictions of a client that uses less of the table.

When a task is forgotten, its predictions are deleted. The file has the number of the host's record up to which this was
done, so that a service that was interrupted in between deletes them at its next start.

The table survives a kill or a crash of the process. After a power loss the latest predictions may be missing; their ids
are then unknown. Each label is still learned only once, because it is sent to the host under its own idempotency key.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from budgetron.durable import DamagedLog, Learned
from budgetron.durable.errors import storage_errors
from budgetron.durable.repairs.staging import reported_as
from budgetron.durable.storage.sqlite_file import SqliteFile, copy_database
from budgetron.graphs.task_ids import task_id_of

KEY_PREFIX = "feedback:"  # the idempotency key of a label is this prefix and the id of its prediction
NAME = "pending.sqlite"
_ROW_BYTES = 100  # assumed size of a row in the table and its indexes, without its example
_TABLE = """
CREATE TABLE pending
    (number INTEGER PRIMARY KEY, id TEXT UNIQUE, example BLOB, label BLOB, position INTEGER, margin BLOB) STRICT;
"""
_LEAD_COLUMN = """
ALTER TABLE pending ADD COLUMN lead REAL;
CREATE INDEX pending_by_lead ON pending (lead) WHERE lead IS NOT NULL AND position IS NULL;
"""
_API_KEY_COLUMN = """
ALTER TABLE pending ADD COLUMN api_key TEXT NOT NULL DEFAULT '';
CREATE INDEX pending_by_api_key ON pending (api_key, number);
"""
_FORGOTTEN_TABLE = """
CREATE TABLE forgotten (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER) STRICT;
INSERT INTO forgotten VALUES (1, 0);
"""


class _Example(msgspec.Struct, array_like=True):
    """A stored example, of which only the task is decoded."""

    features: msgspec.Raw
    task: Any
    offset: msgspec.Raw | None = None


_example_decoder = msgspec.json.Decoder(_Example)


@dataclass(frozen=True)
class PendingPrediction:
    """A remembered prediction, and its label if it has arrived."""

    features: Any
    task: Any
    offset: Any = UNSET
    label: Any = None
    labelled: bool = False
    position: int | None = None
    margin: Any = None


@dataclass
class _Usage:
    """How much of the table an API key uses."""

    rows: int = 0
    bytes: int = 0


class Pending:
    """The table of one model. Used on the event loop only."""

    def __init__(self, directory: Path, max_rows: int, max_bytes: int) -> None:
        self._limits = _Usage(max_rows, max_bytes)
        self._hidden: set[int] = set()  # the ids of tasks that are being forgotten
        self._db = _open(directory)
        self._count()
        with self._db.writing():
            self._evict()

    def _count(self) -> None:
        """Count the rows and bytes of each API key, and of all keys together."""
        query = f"SELECT api_key, count(*), sum(length(example) + {_ROW_BYTES}) FROM pending GROUP BY api_key"
        self._usage = {api_key: _Usage(rows, size) for api_key, rows, size in self._db.rows(query)}
        usage = self._usage.values()
        self._all = _Usage(sum(client.rows for client in usage), sum(client.bytes for client in usage))

    def put(
        self, examples: Sequence[tuple[Any, ...]], api_key: str, leads: Sequence[float | None] | None = None
    ) -> list[str]:
        """Remember the features, task and offset, if any, of each example. Returns the ids by which to label them.

        An example with a lead (of its predicted class over the next one) is in the labelling queue until it has a
        label.
        """
        ids = [secrets.token_hex(12) for _ in examples]
        contents = [msgspec.json.encode(example) for example in examples]
        rows = list(zip(ids, contents, [api_key] * len(ids), leads or [None] * len(ids), strict=True))
        try:
            with self._db.writing():
                self._db.executemany("INSERT INTO pending (id, example, api_key, lead) VALUES (?, ?, ?, ?)", rows)
                self._add(self._usage.setdefault(api_key, _Usage()), len(ids), sum(map(len, contents)))
                self._evict()
        except BaseException:  # nothing was stored, for example because the disk is full
            self._count()
            raise
        return ids

    def _add(self, usage: _Usage, rows: int, content_bytes: int) -> None:
        for total in (usage, self._all):
            total.rows += rows
            total.bytes += content_bytes + _ROW_BYTES * rows

    def _evict(self) -> None:
        """Delete the oldest predictions of the API key that has most, until the table is within its bounds."""
        for unit in ("rows", "bytes"):
            while (excess := getattr(self._all, unit) - getattr(self._limits, unit)) > 0:
                self._delete_oldest(unit, excess)

    def _delete_oldest(self, unit: str, excess: int) -> None:
        """Delete the oldest rows of the API key with most, until it has as much as the next, or the excess is gone."""
        largest, second = sorted([*(getattr(usage, unit) for usage in self._usage.values()), 0], reverse=True)[:2]
        api_key = next(name for name, usage in self._usage.items() if getattr(usage, unit) == largest)
        goal = largest - min(excess, max(1, largest - second))
        usage, last = self._usage[api_key], 0
        query = "SELECT number, length(example) FROM pending WHERE api_key = ? ORDER BY number"
        for number, size in self._db.rows(query, (api_key,)):
            last = number
            self._add(usage, -1, -size)
            if getattr(usage, unit) <= goal:
                break
        self._db.execute("DELETE FROM pending WHERE api_key = ? AND number <= ?", (api_key, last))
        if not usage.rows:
            del self._usage[api_key]

    def get(self, prediction_id: str) -> PendingPrediction | None:
        query = "SELECT example, label, position, margin FROM pending WHERE id = ?"
        row = self._db.one(query, (prediction_id,))
        if row is None:
            return None
        example = msgspec.json.decode(row[0])
        if self._hidden and example[1] is not None and task_id_of(example[1]) in self._hidden:
            return None
        if row[2] is None:
            return PendingPrediction(*example)
        label = None if row[1] is None else msgspec.json.decode(row[1])  # NULL: see `note_learned`
        features, task, offset = example if len(example) == 3 else (*example, UNSET)
        return PendingPrediction(features, task, offset, label, True, row[2], msgspec.json.decode(row[3]))

    def queue(self, limit: int) -> tuple[list[tuple[str, Any, Any, float]], int]:
        """The first `limit` predictions of the labelling queue, the least confident first, and the queue's length."""
        queued = "FROM pending WHERE lead IS NOT NULL AND position IS NULL"
        query = f"SELECT id, example, lead {queued} ORDER BY lead, number LIMIT ?"
        rows = self._db.rows(query, (limit,))
        items = [(prediction_id, *msgspec.json.decode(content)[:2], lead) for prediction_id, content, lead in rows]
        return items, self.n_waiting()

    def n_waiting(self) -> int:
        """How many unlabelled predictions are in the labelling queue."""
        query = "SELECT count(*) FROM pending WHERE lead IS NOT NULL AND position IS NULL"
        return int(self._db.one(query)[0])

    def set_label(self, prediction_id: str, label: Any, position: int, margin: Any) -> None:
        """Store the label that was learned, or the mark of a withdrawn label (`WITHDRAWN` in `handlers.feedback`)."""
        values = (msgspec.json.encode(label), position, msgspec.json.encode(margin), prediction_id)
        with self._db.writing():
            self._db.execute("UPDATE pending SET label = ?, position = ?, margin = ? WHERE id = ?", values)

    def note_learned(self, answers: Mapping[str, Learned]) -> None:
        """Mark predictions as labelled whose label the host had learned when a crash prevented `set_label`."""
        rows = [
            (learned.position, msgspec.json.encode(learned.margins[0].tolist()), key.removeprefix(KEY_PREFIX))
            for key, learned in answers.items()
        ]
        with self._db.writing():
            self._db.executemany("UPDATE pending SET position = ?, margin = ? WHERE id = ? AND label IS NULL", rows)

    @property
    def forgotten_until(self) -> int:
        """The record of the host up to which the predictions of forgotten tasks have been deleted."""
        return int(self._db.one("SELECT position FROM forgotten")[0])

    @contextmanager
    def hidden(self, task: Hashable) -> Iterator[None]:
        """A context in which the predictions of a task cannot be labelled, because the task is being forgotten."""
        self._hidden.add(task_id_of(task))
        try:
            yield
        finally:
            self._hidden.discard(task_id_of(task))

    def forget_task(self, task: Hashable, position: int) -> None:
        """Delete the predictions of a task that the host has forgotten with the record `position`."""
        forgotten = task_id_of(task)
        examples = self._db.rows("SELECT number, example FROM pending")
        tasks = ((number, _example_decoder.decode(content).task) for number, content in examples)
        rows = [(number,) for number, name in tasks if name is not None and task_id_of(name) == forgotten]
        with self._db.writing():
            self._db.executemany("DELETE FROM pending WHERE number = ?", rows)
            self._db.execute("UPDATE forgotten SET position = max(position, ?)", (position,))
        self._count()
        self.empty_write_ahead_file()

    def empty_write_ahead_file(self) -> None:
        """Remove deleted predictions from the write-ahead file, too. Waits for no reader."""
        self._db.empty_write_ahead_file()

    def __len__(self) -> int:
        return int(self._db.one("SELECT count(*) FROM pending")[0])

    def close(self) -> None:
        self._db.close()


def _to_format_2(db: SqliteFile) -> None:
    """Add the API key that each prediction belongs to."""
    db.executescript(_API_KEY_COLUMN)


def _to_format_3(db: SqliteFile) -> None:
    """Add the labelling queue."""
    db.executescript(_LEAD_COLUMN)


def _to_format_4(db: SqliteFile) -> None:
    """Add the position up to which forgotten tasks have been deleted."""
    db.executescript(_FORGOTTEN_TABLE)


_SCHEMA = _TABLE + _API_KEY_COLUMN + _LEAD_COLUMN + _FORGOTTEN_TABLE
_MIGRATIONS = {1: _to_format_2, 2: _to_format_3, 3: _to_format_4}


def _open(directory: Path) -> SqliteFile:
    return SqliteFile(directory / NAME, _SCHEMA, durable=False, checked=True, migrations=_MIGRATIONS)


# ---- for the command line


def verify_pending(directory: Path) -> None:
    """Raise `DamagedLog` if there is a table of pending predictions and it is damaged. The service may be running."""
    if (directory / NAME).exists():
        with tempfile.TemporaryDirectory(prefix="budgetron-") as name, reported_as(Path(name), directory):
            with storage_errors(directory / NAME):
                copy_database(directory / NAME, Path(name) / NAME)
            _open(Path(name)).close()


def repair_pending(directory: Path) -> bool:
    """Delete the table if it is damaged. The model loses nothing by this. Returns whether the table was damaged."""
    try:
        verify_pending(directory)
    except DamagedLog:
        for suffix in ("", "-wal", "-shm"):
            (directory / f"{NAME}{suffix}").unlink(missing_ok=True)
        return True
    return False


def forget_labels_after(directory: Path, position: int) -> None:
    """Delete the labels that a restored model has not learned, so that they can be sent again."""
    if (directory / NAME).exists():
        db = _open(directory)
        try:
            with db.writing():
                db.execute("UPDATE pending SET label = NULL, position = NULL, margin = NULL WHERE position > ?",
                           (position,))  # fmt: skip
        finally:
            db.close()
