"""Parquet and Arrow (file, stream, Feather), by pyarrow, a batch of rows at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from budgetron.errors import MissingExtra, StorageError, refusal, refuse, shown
from budgetron.io.delimited import named
from budgetron.io.source import WHO, Source
from budgetron.io.table import SAMPLE_ROWS, BadLine, Table, Wants, numbers_of
from budgetron.io.values import LARGEST, Coded, coded, text_of


def pyarrow() -> Any:
    """The package, which the extra brings."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(
            refusal(WHO, "source", "in a format that this Python can read", "Parquet or Arrow, without pyarrow",
                    "pip install 'budgetron[parquet]' brings it.")
        ) from None  # fmt: skip
    return pyarrow


class Arrow:
    """A reader of Parquet or Arrow; rows count from 1."""

    layout: str = "table"
    first_bad: BadLine | None = None

    def __init__(self, source: Source, format: str) -> None:
        self._arrow = pyarrow()
        self._source = source
        self._format = format
        file = source.seekable
        if file is None:  # packed, or a pipe: these formats are read from the end
            file = source.closing(tempfile.TemporaryFile())  # noqa: SIM115
            while piece := source.read():
                file.write(piece)
            file.seek(0)
        self._file = file
        self._begin = file.tell()
        flat = self._flat(self._arrow.Table.from_batches([], self._refusing(lambda: self._opened()[0])))
        self.names = named(source.name, flat.column_names)

    def sample(self) -> Table:
        """The first rows, every column as text; they will be read again."""
        rows = self._arrow.Table.from_batches([], self._opened()[0])
        for batch in self._batches(SAMPLE_ROWS):
            rows = self._arrow.concat_tables([rows, self._arrow.Table.from_batches([batch])])
            if rows.num_rows >= SAMPLE_ROWS:
                break
        wants = Wants((), tuple(self.names))
        table: Table = self._refusing(lambda: self._table(rows.slice(0, SAMPLE_ROWS), 0, wants))
        return table

    def tables(self, wants: Wants, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Up to `rows` rows at a time. Nothing is bad here that can be read at all."""
        done = 0
        for batch in self._batches(rows):
            part = self._arrow.Table.from_batches([batch])
            yield self._refusing(lambda: self._table(part, done, wants)), []  # noqa: B023 (called at once)
            done += batch.num_rows

    def _batches(self, rows: int) -> Iterator[Any]:
        """Batches of at most so many rows; empty ones are left out."""
        _, batches = self._refusing(self._opened)
        while (batch := self._refusing(lambda: next(batches, None))) is not None:
            self._refusing(lambda: batch.validate(full=True))  # pyarrow trusts the offsets in a file
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def _opened(self) -> tuple[Any, Iterator[Any]]:
        """The schema, and the batches from the first on."""
        self._file.seek(self._begin)
        if self._format == "parquet":
            file = self._arrow.parquet.ParquetFile(self._file)
            total = max(file.metadata.num_rows, 1)
            return file.schema_arrow, self._counted(file.iter_batches(batch_size=SAMPLE_ROWS), total)
        magic = self._file.read(6)
        self._file.seek(self._begin)
        if magic == b"ARROW1":
            reader = self._arrow.ipc.open_file(self._file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            return reader.schema, self._counted(batches, None)
        reader = self._arrow.ipc.open_stream(self._file)
        return reader.schema, self._counted(iter(reader), None)

    def _counted(self, batches: Iterator[Any], total: int | None) -> Iterator[Any]:
        """The batches; the source learns how far we are."""
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if total is not None:
                self._source.progress(rows / total)
            yield batch
        self._source.progress(1.0)

    def _refusing(self, action: Callable[[], Any]) -> Any:
        """What pyarrow cannot read is refused in our words."""
        try:
            return action()
        except (self._arrow.ArrowException, OSError, ValueError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk, not the content
                raise StorageError(f"{self._source.name}: reading failed: {error}.") from error
            what = "Parquet" if self._format == "parquet" else "Arrow, a file or a stream"
            raise refuse(self._source.name, "the file", what, f"something else ({error})") from None

    def _flat(self, table: Any) -> Any:
        """Structs as columns outer.inner."""
        while any(self._arrow.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        return table

    def _table(self, rows: Any, done: int, wants: Wants) -> Table:
        flat = self._flat(rows)
        columns = dict(zip(self.names, flat.columns, strict=True))
        numbers = np.empty((flat.num_rows, len(wants.numbers)))
        for place, name in enumerate(wants.numbers):
            numbers[:, place] = self._numbers(columns[name])
        texts = {name: self._coded(columns[name]) for name in wants.texts}
        lines = np.arange(done + 1, done + flat.num_rows + 1)
        return Table(lines, numbers, texts, lambda row: shown(rows.slice(row, 1).to_pylist()[0], 200))

    def _numbers(self, column: Any) -> Any:
        types = self._arrow.types
        if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
            return numbers_of(self._coded(column))
        if types.is_boolean(column.type):
            column = column.cast(self._arrow.int8())
        values = column.cast(self._arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.where(np.abs(values) > LARGEST, np.inf, values)

    def _coded(self, column: Any) -> Coded:
        arrow, types = self._arrow, self._arrow.types
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_timestamp(column.type):
            column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)  # what Python's dates can say
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return coded(map(text_of, column.to_pylist()))
        whole = column.combine_chunks().dictionary_encode()
        whole = whole.combine_chunks() if isinstance(whole, arrow.ChunkedArray) else whole
        values = whole.dictionary.to_pylist()
        codes = whole.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int32)
        return Coded([*values, ""], codes)
