"""Which format a file has: the one asked for, else by its name, else by its content."""

from __future__ import annotations

from typing import Any

from budgetron.errors import refuse, shown
from budgetron.streams.delimited import Delimited
from budgetron.streams.source import WHO, Source
from budgetron.streams.table import Reader

FORMATS = ("auto", "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight", "vw")


def reader_of(source: Source, format: str, header: bool | None, task: str | None, columns: Any) -> Reader:
    """The reader for a file."""
    if format not in FORMATS:
        raise refuse(WHO, "format", f"one of {', '.join(FORMATS)}", shown(format))
    return Delimited(source, "\t" if format == "tsv" else None, header)
