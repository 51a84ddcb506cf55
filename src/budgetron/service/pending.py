"""Remembered predictions that wait for their label: a bounded table in a file of its own, beside the log.

The latest predictions are stored, labelled or not. The table survives the process (a kill, a crash). After a power loss
the last moments may be missing, and their ids are then unknown. Whether a label is learned once does not depend on this
table: each label is sent to the host under an idempotency key of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from budgetron.durable import DamagedLog, Learned
from budgetron.durable.sqlite_file import SqliteFile
from budgetron.errors import StorageError, refusal

KEY_PREFIX = "feedback:"  # of the idempotency keys of labels
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pending
    (number INTEGER PRIMARY KEY, id TEXT UNIQUE, example BLOB, label BLOB, position INTEGER, margin BLOB) STRICT;
"""


@dataclass(frozen=True)
class PendingPrediction:
    """A remembered prediction, and its label if that has come."""

    features: Any
    task: Any
    label: Any = None
    labelled: bool = False
    position: int | None = None
    margin: Any = None


class Pending:
    """The table of one model. Used on the event loop only."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._limit = limit
        path = directory / "pending.sqlite"
        try:
            self._db = SqliteFile(path, _SCHEMA, durable=False)
        except DamagedLog as error:  # this file is not the log, and is easier to do without
            raise StorageError(
                refusal("service", "the file of pending predictions", "intact", f"{str(path)!r}: {error.__cause__}",
                        "Delete it, and start again. Earlier predictions can then not be labelled by id; nothing that "
                        "was learned is lost.")
            ) from error  # fmt: skip

    def put(self, examples: Sequence[tuple[Any, Any]]) -> list[str]:
        """Remember features and tasks, and return the ids to label them by."""
        ids = [secrets.token_hex(12) for _ in examples]
        rows = [(name, msgspec.json.encode(example)) for name, example in zip(ids, examples, strict=True)]
        with self._db.writing():
            self._db.executemany("INSERT INTO pending (id, example) VALUES (?, ?)", rows)
            self._db.execute("DELETE FROM pending WHERE number <= (SELECT max(number) FROM pending) - ?", [self._limit])
        return ids

    def get(self, name: str) -> PendingPrediction | None:
        query = "SELECT example, label, position, margin FROM pending WHERE id = ?"
        found = self._db.one(query, (name,))
        if found is None:
            return None
        features, task = msgspec.json.decode(found[0])
        if found[2] is None:
            return PendingPrediction(features, task)
        label = None if found[1] is None else msgspec.json.decode(found[1])  # NULL: learned just before a crash
        return PendingPrediction(features, task, label, True, found[2], msgspec.json.decode(found[3]))

    def set_label(self, name: str, label: Any, position: int, margin: Any) -> None:
        """Store the label that was learned."""
        values = (msgspec.json.encode(label), position, msgspec.json.encode(margin), name)
        with self._db.writing():
            self._db.execute("UPDATE pending SET label = ?, position = ?, margin = ? WHERE id = ?", values)

    def note_learned(self, answers: Mapping[str, Learned]) -> None:
        """After a crash: store the labels that the host has learned and this table does not have."""
        rows = [
            (learned.position, msgspec.json.encode(learned.margins[0].tolist()), key.removeprefix(KEY_PREFIX))
            for key, learned in answers.items()
        ]
        with self._db.writing():
            self._db.executemany("UPDATE pending SET position = ?, margin = ? WHERE id = ? AND label IS NULL", rows)

    def __len__(self) -> int:
        return int(self._db.one("SELECT count(*) FROM pending")[0])

    def close(self) -> None:
        self._db.close()
