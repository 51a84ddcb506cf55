"""Predictions that wait for their label: a bounded table beside the log.

The latest so many are kept, whether labelled or not. It survives the process (a kill, a crash); after a loss of power
the last moments may be missing, and their ids are then unknown. That a label is learned once does not rest on this
table: each is sent to the host under a key of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from budgetron.durable import Learned
from budgetron.durable.sqlite_file import SqliteFile

KEY = "feedback:"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pending
    (number INTEGER PRIMARY KEY, id TEXT UNIQUE, example BLOB, label BLOB, position INTEGER, margin BLOB) STRICT;
"""


@dataclass(frozen=True)
class Waiting:
    """A prediction that was made, and its label if that came."""

    features: Any
    task: Any
    label: Any = None
    labelled: bool = False
    position: int | None = None
    margin: Any = None


class Pending:
    """The table of one model. Used on the event loop only."""

    def __init__(self, directory: Path, most: int) -> None:
        self._most = most
        self._db = SqliteFile(directory / "pending.sqlite", _SCHEMA, durable=False)

    def put(self, examples: Sequence[tuple[Any, Any]]) -> list[str]:
        """Remember features and tasks; the ids to label them by."""
        ids = [secrets.token_hex(12) for _ in examples]
        rows = [(name, msgspec.json.encode(example)) for name, example in zip(ids, examples, strict=True)]
        with self._db.writing():
            self._db.executemany("INSERT INTO pending (id, example) VALUES (?, ?)", rows)
            self._db.execute("DELETE FROM pending WHERE number <= (SELECT max(number) FROM pending) - ?", (self._most,))
        return ids

    def get(self, name: str) -> Waiting | None:
        query = "SELECT example, label, position, margin FROM pending WHERE id = ?"
        found = self._db.one(query, (name,))
        if found is None:
            return None
        features, task = msgspec.json.decode(found[0])
        if found[2] is None:
            return Waiting(features, task)
        label = None if found[1] is None else msgspec.json.decode(found[1])  # None: learned just before a crash
        return Waiting(features, task, label, True, found[2], msgspec.json.decode(found[3]))

    def labelled(self, name: str, label: Any, position: int, margin: Any) -> None:
        """Note the label that was learned."""
        values = (msgspec.json.encode(label), position, msgspec.json.encode(margin), name)
        with self._db.writing():
            self._db.execute("UPDATE pending SET label = ?, position = ?, margin = ? WHERE id = ?", values)

    def note_learned(self, answers: Mapping[str, Learned]) -> None:
        """After a crash: labels that the host has learned, and this table has not heard of."""
        rows = [
            (learned.position, msgspec.json.encode(learned.margins[0].tolist()), key.removeprefix(KEY))
            for key, learned in answers.items()
        ]
        with self._db.writing():
            self._db.executemany("UPDATE pending SET position = ?, margin = ? WHERE id = ? AND label IS NULL", rows)

    def __len__(self) -> int:
        return int(self._db.one("SELECT count(*) FROM pending")[0])

    def close(self) -> None:
        self._db.close()
