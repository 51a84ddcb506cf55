"""Choose the reader for a file: by the caller's `format`, otherwise by the file name, otherwise by the first bytes.

`stream.read` calls `reader_of`. The reader of CSV and TSV is imported with this module. All other readers are imported
on use, because some need packages that take long to import, such as pyarrow.
"""

from __future__ import annotations

import os
import re

from budgetron.errors import InputError, input_error, shown
from budgetron.io.encoding.columns import Columns
from budgetron.io.formats.delimited import Delimited
from budgetron.io.source import WHO, Source
from budgetron.io.table import Reader

FORMATS = ("auto", "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight", "vw")
_SUFFIXES = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet", "arrow": "arrow",
    "arrows": "arrow", "feather": "arrow", "ipc": "arrow", "ndjson": "ndjson", "jsonl": "ndjson", "json": "ndjson",
    "svm": "svmlight", "svmlight": "svmlight", "libsvm": "svmlight", "vw": "vw",
}  # fmt: skip
_COMPRESSED = ("gz", "gzip", "zst", "zstd")
# The first line of a svmlight file has a label and index:value pairs. The first line of a Vowpal Wabbit file has a bar
# before the features.
_SVMLIGHT = re.compile(rb"[+-]?[0-9.eE+-]+([ \t]+qid:\S+)?([ \t]+[0-9]+:[0-9.eE+-]+)+[ \t]*(#.*)?")
_VW = re.compile(rb"([+-]?[0-9][0-9.eE+-]*([ \t]+[0-9.]+){0,2})?[ \t]*('?\S+)?\|\S*[ \t].*")


def reader_of(source: Source, format: str, header: bool | None, task: str | None, columns: Columns | None) -> Reader:
    """Return a reader for the file; `columns` are the columns of a saved model, if there is one."""
    if format not in FORMATS:
        raise input_error(WHO, "format", f"one of {', '.join(FORMATS)}", shown(format))
    file_format = _by_name(source.name) or _by_content(source.peek(1 << 16)) if format == "auto" else format
    layout = file_format if file_format in ("svmlight", "vw") else "table"
    if columns is not None and columns.plan.layout != layout:
        learned_from = "a table (CSV, Parquet, NDJSON)" if columns.plan.layout == "table" else columns.plan.layout
        raise InputError(
            f"{source.name} was read as {file_format}, but the model learned from {learned_from}. "
            "If the format was detected wrongly, name it: format=..."
        )
    if file_format in ("csv", "tsv"):
        return Delimited(source, "\t" if file_format == "tsv" else None, header)
    return _import_reader(source, file_format, task, 0 if columns is None else columns.plan.hashed)


def _import_reader(source: Source, format: str, task: str | None, width: int) -> Reader:
    """Create the reader of any format but CSV and TSV. Its module is imported only if it is needed."""
    if format in ("parquet", "arrow"):
        from budgetron.io.formats.arrow import Arrow

        return Arrow(source, format)
    if format == "ndjson":
        from budgetron.io.formats.ndjson import Ndjson

        return Ndjson(source)
    if format == "svmlight":
        from budgetron.io.formats.svmlight import Svmlight

        return Svmlight(source, task, width)
    from budgetron.io.formats.vw import VowpalWabbit

    return VowpalWabbit(source, task, width)


def _by_name(name: str) -> str | None:
    """Return the format by the extension of the file; None if it is unknown."""
    parts = os.path.basename(name).lower().split(".")[1:]
    # data.csv.gz is a CSV file.
    while parts and parts[-1] in _COMPRESSED:
        parts.pop()
    return _SUFFIXES.get(parts[-1]) if parts else None


def _by_content(head: bytes) -> str:
    """Recognise the format by the first bytes: magic numbers, otherwise the form of the first line."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    # Skip the byte order mark of UTF-8, and blank lines at the beginning.
    line = head.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0].rstrip(b"\r")
    if line.lstrip().startswith(b"{"):
        return "ndjson"
    if _SVMLIGHT.fullmatch(line):
        return "svmlight"
    return "vw" if _VW.fullmatch(line) else "csv"
