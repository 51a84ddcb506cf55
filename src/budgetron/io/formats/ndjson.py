"""Read NDJSON: one JSON object per line. A nested object becomes columns named outer.inner; a list becomes one text."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.io.encoding.values import CodedColumn, format_value
from budgetron.io.formats.delimited import MAX_COLUMNS, MAX_NAME
from budgetron.io.formats.line_reader import InvalidLine, LineReader, ParsedLines
from budgetron.io.formats.records import Chunk
from budgetron.io.source import Source
from budgetron.io.table import Selection, Table, replace_missing_codes, table_from_values
from budgetron.learners.input.nested import flattened


class Ndjson(LineReader):
    """Reader of JSON lines. Its columns are the names in the first rows, in order of appearance."""

    layout: str = "table"

    def __init__(self, source: Source) -> None:
        if source.peek(1) == b"[":
            raise InputError(
                f"{source.name} contains a JSON list; one JSON object per line is expected. "
                "Convert it with: jq -c '.[]'"
            )
        super().__init__(source)
        self.names: list[str] = []
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._decoder: _SelectiveDecoder | None = None

    def row(self, line: bytes) -> dict[str, Any] | None:
        """Parse the object of a line and flatten it; None for a blank line."""
        try:
            try:
                record = self._decode(line)
            except msgspec.DecodeError:
                if not line.strip():
                    return None
                # Slower, but it also accepts NaN, which Python's json writes, and half of a surrogate pair.
                record = json.loads(line)
                if not isinstance(record, dict):
                    kind = type(record).__name__
                    raise InvalidLine(f"the line should be a JSON object but is a {kind}") from None
                return {format_value(name): value for name, value in flattened(record).items()}
            return dict(flattened(record))
        except (ValueError, RecursionError) as error:
            # Leave out Python's "line 1", which would be wrong: Python sees a single line. The caller adds the number.
            why = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise InvalidLine(f"the line should be a JSON object but cannot be parsed ({why})") from None

    def rows(self, chunk: Chunk, selection: Selection | None, stop: bool) -> ParsedLines:
        """Parse all lines of a chunk, in the fastest of three ways that is possible:

        1. The compiled core, if it is installed, all selected columns are at the top level, none of their values is an
           object or a list, and no line is invalid.
        2. `_SelectiveDecoder`, if all selected columns are at the top level: it decodes only these.
        3. Otherwise `row`, which decodes the complete line.
        """
        if selection is None or not all(map(_is_top_level, (*selection.numbers, *selection.texts))):
            return super().rows(chunk, selection, stop)
        from_core = _parse_in_core(chunk, selection)
        if from_core is not None:
            return ParsedLines(from_core, np.arange(len(chunk[0].first_lines)), [])
        if self._decoder is None or self._decoder.selection != selection:
            self._decoder = _SelectiveDecoder(selection)
        decode, lines = self._decoder.decode, range(len(chunk[0].first_lines))
        parsed = self.line_by_line(chunk, lines, lambda line: decode(line, self.row), stop)
        return parsed._replace(rows=self._decoder.columns(parsed.rows))

    def table(self, rows: Any, lines: Any, content: Any, selection: Selection | None) -> Table:
        """Combine rows into a table; a name that a row lacks is a missing value."""
        if selection is None:
            names = list(dict.fromkeys(name for row in rows for name in row))
            if len(names) > MAX_COLUMNS or any(len(name) > MAX_NAME for name in names):
                raise InputError(
                    f"{self._source.name}: the first rows have {len(names):,} different names; at most "
                    f"{MAX_COLUMNS:,} names of at most {MAX_NAME:,} characters are accepted."
                )
            self.names, selection = names, Selection((), tuple(names))
        if isinstance(rows, _CoreColumns):
            return Table(lines, rows.numbers, rows.texts, content)
        if isinstance(rows, list):
            rows = {name: [row.get(name) for row in rows] for name in (*selection.numbers, *selection.texts)}
        return table_from_values(rows, selection, lines, content)


def _is_top_level(name: str) -> bool:
    """Return whether a column is a value of the object itself: no dot in its name, and nothing that JSON escapes."""
    return name.isprintable() and not set(name) & set('."\\')


class _CoreColumns(NamedTuple):
    """The selected columns of a chunk, as the core parsed them."""

    numbers: NDArray[np.float64]
    texts: dict[str, CodedColumn]


def _parse_in_core(chunk: Chunk, selection: Selection) -> _CoreColumns | None:
    """Parse the lines of a chunk in the core. None if Python must parse them, for example because a line is invalid."""
    # The core returns each column once, so a column cannot be both a number and a text.
    if native.json_lines is None or not set(selection.numbers).isdisjoint(selection.texts):
        return None
    (scan, content, offset), (names, texts, number_formats) = chunk, selection
    columns = native.json_lines(content, scan.begins + offset, scan.ends + offset, names, texts)
    if columns is None:
        return None
    numbers = columns[0].reshape(len(scan.first_lines), len(names))
    for name, number_format in number_formats.items():
        j = names.index(name)
        numbers[:, j] = replace_missing_codes(numbers[:, j], number_format)
    return _CoreColumns(numbers, {name: CodedColumn(*text) for name, text in zip(texts, columns[1], strict=True)})


class _SelectiveDecoder:
    """Decodes only the selected values of an object. msgspec skips all others without creating Python objects.

    If a selected value is an object or NaN, or the line is invalid, this decoder fails, and `Ndjson.row` parses the
    complete line.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._names = (*selection.numbers, *selection.texts)
        # A column name need not be a Python identifier, so the fields have names of their own and are renamed in JSON.
        self._fields = [f"value_{j}" for j in range(len(self._names))]
        plain = int | float | str | bool | list[Any] | None
        json_names = dict(zip(self._fields, self._names, strict=True))
        fields = [(name, plain, None) for name in self._fields]
        self._struct: Any = msgspec.defstruct("Picked", fields, rename=json_names)
        self._decode = msgspec.json.Decoder(self._struct).decode

    def decode(self, line: bytes, row_of: Callable[[bytes], dict[str, Any] | None]) -> Any:
        """Decode the selected values of a line. If this decoder rejects the line, `row_of` parses it completely."""
        try:
            return self._decode(line)
        except (msgspec.DecodeError, RecursionError):
            row = row_of(line)
            return None if row is None else self._struct(*map(row.get, self._names))

    def columns(self, rows: list[Any]) -> dict[str, list[Any]]:
        pairs = zip(self._names, self._fields, strict=True)
        return {name: list(map(attrgetter(field), rows)) for name, field in pairs}
