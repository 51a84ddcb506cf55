"""The audit log: who changed or downloaded what, and when. One file, `audit.sqlite`, for all models of a service.

A line is on disk before its action begins. If the line cannot be written, the action is refused, except a download. The
outcome is added when the action ends, so an action that a crash interrupted has no outcome. The line of a corrected
label has the number of the correction (GET corrections), but not the old and the new label. The labels are in the
model's own database, written in the same transaction as the change.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from budgetron.durable.errors import storage_errors
from budgetron.durable.storage.sqlite_file import SqliteFile
from budgetron.errors import BudgetronError
from budgetron.service.http.admin_wire import AuditLine
from budgetron.service.http.problems import problem_of
from budgetron.service.logs import log

NAME = "audit.sqlite"
MAX_LINES = 100_000  # older lines are deleted
DONE = "done"
_SCHEMA = """
CREATE TABLE action (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, who TEXT, address TEXT, action TEXT, model TEXT,
    outcome TEXT, details TEXT) STRICT;
"""


class AuditLog:
    """The audit log of a service. Its file is created with the first action. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._db: SqliteFile | None = None
        self._lock = threading.Lock()

    def _open(self) -> SqliteFile:
        if self._db is None:
            with storage_errors(self._path):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._db = SqliteFile(self._path, _SCHEMA)
        return self._db

    def begin(self, who: str, address: str, action: str, model: str | None) -> int:
        """Write the line of an action that is about to begin, and return its number."""
        with self._lock:
            db = self._open()
            with db.writing():
                line = (time.time(), who, address, action, model, "{}")
                columns = "at, who, address, action, model, details"
                number = db.execute(f"INSERT INTO action ({columns}) VALUES (?, ?, ?, ?, ?, ?)", line).lastrowid
                assert number is not None
                db.execute("DELETE FROM action WHERE number <= ?", (number - MAX_LINES,))
        return number

    def end(self, number: int, outcome: str, details: dict[str, Any]) -> None:
        """Write how an action ended."""
        text = msgspec.json.encode(details).decode()
        with self._lock:
            db = self._open()
            with db.writing():
                db.execute("UPDATE action SET outcome = ?, details = ? WHERE number = ?", (outcome, text, number))

    def lines(self, limit: int = 1000) -> list[AuditLine]:
        """The latest lines, newest first."""
        with self._lock:
            if self._db is None and not self._path.exists():
                return []
            query = "SELECT number, at, who, address, action, model, outcome, details FROM action"
            rows = list(self._open().rows(f"{query} ORDER BY number DESC LIMIT ?", (limit,)))
        names = AuditLine.__struct_fields__
        lines = [dict(zip(names, row, strict=True)) for row in rows]
        return [AuditLine(**line | {"details": msgspec.json.decode(line["details"])}) for line in lines]

    @asynccontextmanager
    async def record_action(
        self, who: str, address: str, action: str, model: str | None, details: dict[str, Any], *, required: bool
    ) -> AsyncIterator[None]:
        """Record the action of the `with` block, which may add to `details`.

        If the line cannot be written and is `required`, the action is refused. For downloads it is not required,
        because a full disk must not prevent downloading the model.
        """
        number = None
        try:
            number = await asyncio.to_thread(self.begin, who, address, action, model)
        except BudgetronError as error:
            if required:
                raise
            log("warning", message=f"The audit log cannot be written: {error}")
        outcome = "interrupted"
        try:
            yield
            outcome = DONE
        except Exception as error:
            problem = problem_of(error)
            outcome = "fault" if problem is None else problem.kind
            raise
        finally:
            log("admin", action=action, model=model, key=who, address=address, outcome=outcome, **details)
            if number is not None:
                try:
                    await asyncio.to_thread(self.end, number, outcome, details)
                except BudgetronError as error:  # the action itself has happened
                    log("warning", message=f"The audit log cannot be written: {error}")

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None
