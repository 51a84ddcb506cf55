"""Read Parquet and Arrow (file, stream and Feather) with pyarrow, one batch of rows at a time. Called by `choose`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from budgetron.errors import InputError, MissingExtra, StorageError, shown
from budgetron.io.encoding.number_formats import NumberFormat
from budgetron.io.encoding.values import LARGEST, CodedColumn, code_texts, format_value
from budgetron.io.formats.delimited import column_names, renamed_columns
from budgetron.io.source import Source
from budgetron.io.table import PLAIN, SAMPLE_ROWS, BadLine, Selection, Table, parse_numbers, replace_missing_codes


def import_pyarrow() -> Any:
    """Import pyarrow with the parts used here. If it is missing, raise an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(
            "Parquet and Arrow files need the package pyarrow, which is not installed. "
            "Install it with: pip install 'budgetron[parquet]'"
        ) from None
    return pyarrow


class Arrow:
    """Reader of Parquet or Arrow. Line numbers are row numbers here, counted from 1."""

    layout: str = "table"
    typed = True
    first_bad: BadLine | None = None

    def __init__(self, source: Source, format: str) -> None:
        self._arrow = import_pyarrow()
        self._source = source
        self._format = format
        file = source.random_access_file
        if file is None:  # the index is at the end of these files, so a pipe or compressed file is copied to disk first
            file = source.close_later(tempfile.TemporaryFile())  # noqa: SIM115
            while piece := source.read():
                file.write(piece)
            file.seek(0)
        self._file = file
        self._begin = file.tell()
        flat = self._flatten(self._arrow.Table.from_batches([], self._translate_errors(lambda: self._open()[0])))
        self.names = column_names(source.name, flat.column_names)
        self.renamed = renamed_columns(flat.column_names, self.names)

    def sample(self) -> Table:
        """Return the first rows with every column as text; `tables` returns them again."""
        rows = self._arrow.Table.from_batches([], self._open()[0])
        for batch in self._batches(SAMPLE_ROWS):
            rows = self._arrow.concat_tables([rows, self._arrow.Table.from_batches([batch])])
            if rows.num_rows >= SAMPLE_ROWS:
                break
        selection = Selection((), tuple(self.names))
        table: Table = self._translate_errors(lambda: self._table(rows.slice(0, SAMPLE_ROWS), 0, selection))
        return table

    def tables(self, selection: Selection, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Yield up to `rows` rows at a time. There are no bad lines: a damaged file raises an error."""
        n_before = 0
        for batch in self._batches(rows):
            part = self._arrow.Table.from_batches([batch])
            yield self._translate_errors(lambda: self._table(part, n_before, selection)), []  # noqa: B023 (called at once)
            n_before += batch.num_rows

    def _batches(self, rows: int) -> Iterator[Any]:
        """Yield batches of at most `rows` rows; empty batches are left out."""
        _, batches = self._translate_errors(self._open)
        while (batch := self._translate_errors(lambda: next(batches, None))) is not None:
            # pyarrow trusts the offsets in a file: without this check a damaged file makes it read outside its buffers.
            self._translate_errors(lambda: batch.validate(full=True))
            # A batch may be larger than a block; slices share its memory.
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def _open(self) -> tuple[Any, Iterator[Any]]:
        """Return the schema, and an iterator over all batches."""
        self._file.seek(self._begin)
        if self._format == "parquet":
            file = self._arrow.parquet.ParquetFile(self._file)
            total = max(file.metadata.num_rows, 1)
            return file.schema_arrow, self._with_progress(file.iter_batches(batch_size=SAMPLE_ROWS), total)
        magic = self._file.read(6)
        self._file.seek(self._begin)
        if magic == b"ARROW1":
            reader = self._arrow.ipc.open_file(self._file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            return reader.schema, self._with_progress(batches, None)
        reader = self._arrow.ipc.open_stream(self._file)
        return reader.schema, self._with_progress(iter(reader), None)

    def _with_progress(self, batches: Iterator[Any], total: int | None) -> Iterator[Any]:
        """Yield the batches and report progress to the source."""
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if total is not None:
                self._source.progress(rows / total)
            yield batch
        self._source.progress(1.0)

    def _translate_errors(self, action: Callable[[], Any]) -> Any:
        """Run an action, and turn pyarrow's errors about an unreadable file into an `InputError`."""
        try:
            return action()
        except (self._arrow.ArrowException, OSError, ValueError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk failed; the content may be right
                raise StorageError(f"{self._source.name}: reading failed: {error}.") from error
            what = "Parquet" if self._format == "parquet" else "an Arrow file or stream"
            raise InputError(f"{self._source.name} cannot be read as {what}: {error}") from None

    def _flatten(self, table: Any) -> Any:
        """Replace structs by columns named outer.inner."""
        while any(self._arrow.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        return table

    def _table(self, rows: Any, n_before: int, selection: Selection) -> Table:
        """Convert a batch of rows to a table. `n_before` is the number of rows before this batch."""
        flat = self._flatten(rows)
        columns = dict(zip(self.names, flat.columns, strict=True))
        numbers = np.empty((flat.num_rows, len(selection.numbers)))
        for j, name in enumerate(selection.numbers):
            numbers[:, j] = self._numbers(columns[name], selection.number_formats.get(name, PLAIN))
        texts = {name: self._coded_texts(columns[name]) for name in selection.texts}
        lines = np.arange(n_before + 1, n_before + flat.num_rows + 1)
        return Table(lines, numbers, texts, lambda row: shown(rows.slice(row, 1).to_pylist()[0], 200))

    def _numbers(self, column: Any, number_format: NumberFormat) -> Any:
        """Return a column as float64. Numbers that are too large become infinity, which is reported as a bad row."""
        types = self._arrow.types
        if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
            return parse_numbers(self._coded_texts(column), number_format)
        if types.is_boolean(column.type):
            column = column.cast(self._arrow.int8())
        values = column.cast(self._arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return replace_missing_codes(np.where(np.abs(values) > LARGEST, np.inf, values), number_format)

    def _coded_texts(self, column: Any) -> CodedColumn:
        """Return a column as texts. Each distinct text is stored once."""
        arrow, types = self._arrow, self._arrow.types
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_timestamp(column.type):
            # Python's datetime has only microseconds, so `to_pylist` below would raise an error for nanoseconds.
            column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return code_texts(map(format_value, column.to_pylist()))
        coded = column.combine_chunks().dictionary_encode()
        coded = coded.combine_chunks() if isinstance(coded, arrow.ChunkedArray) else coded
        values = coded.dictionary.to_pylist()
        codes = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int32)
        # Nulls have the code of the empty text, which is a missing value.
        return CodedColumn([*values, ""], codes)
