"""NDJSON: one JSON object a line. Objects inside objects are columns outer.inner; a list is its values as one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from budgetron.errors import refuse
from budgetron.io.delimited import MAX_COLUMNS, MAX_NAME
from budgetron.io.lines import Gathered, LineReader, NotARow
from budgetron.io.records import Piece
from budgetron.io.source import Source
from budgetron.io.table import Table, Wants, table_of


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
        self._picker: _Picker | None = None

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

    def rows(self, piece: Piece, wants: Wants | None, stop: bool) -> Gathered:
        """The rows of all lines: whole objects, or what is wanted of them where that is at hand."""
        if wants is None or not all(map(_is_at_hand, (*wants.numbers, *wants.texts))):
            return super().rows(piece, wants, stop)
        if self._picker is None or self._picker.wants != wants:
            self._picker = _Picker(wants)
        pick, lines = self._picker.pick, range(len(piece[0].lines))
        gathered = self.line_by_line(piece, lines, lambda line: pick(line, self.row), stop)
        return gathered._replace(rows=self._picker.columns(gathered.rows))

    def table(self, rows: Any, lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table; a name that a row lacks is missing there."""
        if wants is None:
            names = list(dict.fromkeys(name for row in rows for name in row))
            if len(names) > MAX_COLUMNS or any(len(name) > MAX_NAME for name in names):
                accepted = f"of at most {MAX_COLUMNS:,} names of at most {MAX_NAME:,} characters"
                raise refuse(self._source.name, "the first rows", accepted, f"{len(names):,}")
            self.names, wants = names, Wants((), tuple(names))
        if isinstance(rows, list):
            rows = {name: [row.get(name) for row in rows] for name in (*wants.numbers, *wants.texts)}
        return table_of(rows, wants, lines, content)


def _is_at_hand(name: str) -> bool:
    """Whether a name is that of a value of the object itself, written as it is: no dot, and nothing to be escaped."""
    return name.isprintable() and not set(name) & set('."\\')


class _Picker:
    """Takes the wanted values out of objects, without making anything of the others.

    What is not plainly such an object (a wanted value is an object, or NaN as Python writes it) goes the long way.
    """

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self._names = (*wants.numbers, *wants.texts)
        self._fields = [f"value_{place}" for place in range(len(self._names))]
        plain = int | float | str | bool | list[Any] | None
        renamed = dict(zip(self._fields, self._names, strict=True))
        self._kind: Any = msgspec.defstruct("Picked", [(name, plain, None) for name in self._fields], rename=renamed)
        self._decode = msgspec.json.Decoder(self._kind).decode

    def pick(self, line: bytes, row_of: Callable[[bytes], dict[str, Any] | None]) -> Any:
        try:
            return self._decode(line)
        except (msgspec.DecodeError, RecursionError):
            row = row_of(line)
            return None if row is None else self._kind(*map(row.get, self._names))

    def columns(self, rows: list[Any]) -> dict[str, list[Any]]:
        pairs = zip(self._names, self._fields, strict=True)
        return {name: list(map(attrgetter(field), rows)) for name, field in pairs}


def _flat(record: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
