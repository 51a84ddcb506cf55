"""The result of `budgetron run`: the saved model, a line in a history, an HTML report. `summary` prints it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from budgetron.cli import with_options
from budgetron.cli.formatting import source_words
from budgetron.cli.options import StreamOptions
from budgetron.errors import BudgetronError

_MAX_NOTES = 40  # columns that a report describes


@dataclass
class RunResult:
    """The outcome of one pass over a stream."""

    source: str
    model: Any
    columns: Any
    validation: Any
    seconds: float
    rows: int  # to continue with --skip: rows that were learned, or skipped with --skip; bad lines do not count
    n_bad: int
    bad: list[str]
    stopped: str | None  # the name of the signal that stopped the run, or "an error"
    options: StreamOptions
    error: BudgetronError | None = None
    saved: str | None = None
    directory: str | None = None  # where the logs of a sharded model are
    notes: list[str] = field(default_factory=list)


def save_model(result: RunResult, path: str) -> None:
    """Save the model of the run."""
    from budgetron import io

    io.save_model(path, result.model, result.columns)
    result.saved = path


def append_to_history(result: RunResult, path: str) -> None:
    """Append one line of JSON about this run to a file.

    The line is written in one call, so that the lines of two runs at the same time do not mix.
    """
    from datetime import UTC, datetime

    from budgetron.evaluate.history import record_of

    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record = {"at": at, "source": result.source, "stopped": result.stopped, **record_of(result.validation)}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    result.notes.append(f"Recorded in {path}. To compare runs: budgetron history {shlex.quote(path)}")


def write_report(result: RunResult, path: str) -> None:
    """Write the HTML report of the run."""
    from budgetron import report

    context = report.Context(
        title=f"budgetron run {source_words(result.source)}",
        command=shlex.join(["budgetron", *sys.argv[1:]]),
        source=result.source,
        digest=report.digest_of(result.source),
        seconds=result.seconds,
        rows=result.rows + result.n_bad,
        bad_rows=result.n_bad,
        interrupted=result.stopped is not None,
        notes=(*map(with_options, result.columns.warnings()), *_column_notes(result.columns.describe())),
    )
    report.write(path, validation=result.validation, model=result.model, context=context)
    result.notes.append(f"The report is in {path}.")


def _column_notes(rows: list[Any]) -> Iterator[str]:
    """Yield a sentence for each of the first columns, and one that counts the others."""
    yield from (_column_words(row) for row in rows[:_MAX_NOTES])
    if len(rows) > _MAX_NOTES:
        yield f"And {len(rows) - _MAX_NOTES:,} more columns."


def _column_words(row: Any) -> str:
    name = f"Column {row.column}" if row.column else "The rows"
    columns = "column" if row.output == "1" else "columns"
    parts = [row.role, row.kind, f"{row.output} {columns} of X" if row.output else "", row.note]
    return f"{name}: {', '.join(part for part in parts if part)}."
