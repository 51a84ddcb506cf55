"""NDJSON: one JSON object a line. Objects inside objects are columns outer.inner; a list is its values as one text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from budgetron.errors import refuse
from budgetron.streams.delimited import MAX_COLUMNS, MAX_NAME
from budgetron.streams.lines import LineReader, NotARow
from budgetron.streams.source import Source
from budgetron.streams.table import Table, Wants, table_of


class Ndjson(LineReader):
    """A reader of JSON lines; its columns are the names in the first rows, in order of appearance."""

    layout: str = "table"

    def __init__(self, source: Source) -> None:
        if source.peek(1) == b"[":
            remedy = "jq -c '.[]' makes lines of a list."
            raise refuse(source.name, "the file", "one JSON object a line", "a list", remedy)
        super().__init__(source)
        self.names: list[str] = []
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode

    def row(self, line: bytes) -> dict[str, Any] | None:
        """The object of a line, flat; a line of blanks is none."""
        try:
            try:
                record = self._decode(line)
            except msgspec.DecodeError:
                if not line.strip():
                    return None
                record = json.loads(line)  # which also takes NaN, as Python writes it
                if not isinstance(record, dict):
                    raise NotARow(f"a JSON object; got {type(record).__name__}") from None
            if any(type(value) is dict for value in record.values()):
                return dict(_flat(record, ""))
            return record
        except (ValueError, RecursionError) as error:
            raise NotARow(f"a JSON object; got something else ({error})") from None

    def table(self, rows: list[dict[str, Any]], lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table; a name that a row lacks is missing there."""
        if wants is None:
            names = list(dict.fromkeys(name for row in rows for name in row))
            if len(names) > MAX_COLUMNS or any(len(name) > MAX_NAME for name in names):
                accepted = f"of at most {MAX_COLUMNS:,} names of at most {MAX_NAME:,} characters"
                raise refuse(self._source.name, "the first rows", accepted, f"{len(names):,}")
            self.names, wants = names, Wants((), tuple(names))
        values = {name: [row.get(name) for row in rows] for name in (*wants.numbers, *wants.texts)}
        return table_of(values, wants, lines, content)


def _flat(record: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
