"""Which format a file has: the one asked for, else by its name, else by its first bytes."""

from __future__ import annotations

import os
import re

from budgetron.errors import refuse, shown
from budgetron.io.columns import Columns
from budgetron.io.delimited import Delimited
from budgetron.io.source import WHO, Source
from budgetron.io.table import Reader

FORMATS = ("auto", "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight", "vw")
_SUFFIXES = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet", "arrow": "arrow",
    "arrows": "arrow", "feather": "arrow", "ipc": "arrow", "ndjson": "ndjson", "jsonl": "ndjson", "json": "ndjson",
    "svm": "svmlight", "svmlight": "svmlight", "libsvm": "svmlight", "vw": "vw",
}  # fmt: skip
_PACKED = ("gz", "gzip", "zst", "zstd")
_SVMLIGHT = re.compile(rb"[+-]?[0-9.eE+-]+([ \t]+qid:\S+)?([ \t]+[0-9]+:[0-9.eE+-]+)+[ \t]*(#.*)?")
_VW = re.compile(rb"([+-]?[0-9][0-9.eE+-]*([ \t]+[0-9.]+){0,2})?[ \t]*('?\S+)?\|\S*[ \t].*")


def reader_of(source: Source, format: str, header: bool | None, task: str | None, columns: Columns | None) -> Reader:
    """The reader for a file."""
    if format not in FORMATS:
        raise refuse(WHO, "format", f"one of {', '.join(FORMATS)}", shown(format))
    chosen = _by_name(source.name) or _by_content(source.peek(1 << 16)) if format == "auto" else format
    layout = chosen if chosen in ("svmlight", "vw") else "table"
    if columns is not None and columns.plan.layout != layout:
        raise refuse(source.name, "the file", f"{columns.plan.layout}, as the model learned from", chosen)
    if chosen in ("csv", "tsv"):
        return Delimited(source, "\t" if chosen == "tsv" else None, header)
    return _other(source, chosen, task, 0 if columns is None else columns.plan.hashed)


def _other(source: Source, chosen: str, task: str | None, width: int) -> Reader:
    if chosen in ("parquet", "arrow"):
        from budgetron.io.arrow import Arrow

        return Arrow(source, chosen)
    if chosen == "ndjson":
        from budgetron.io.ndjson import Ndjson

        return Ndjson(source)
    if chosen == "svmlight":
        from budgetron.io.svmlight import Svmlight

        return Svmlight(source, task, width)
    from budgetron.io.vw import VowpalWabbit

    return VowpalWabbit(source, task, width)


def _by_name(name: str) -> str | None:
    parts = os.path.basename(name).lower().split(".")[1:]
    while parts and parts[-1] in _PACKED:
        parts.pop()
    return _SUFFIXES.get(parts[-1]) if parts else None


def _by_content(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    line = head.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0].rstrip(b"\r")
    if line.lstrip().startswith(b"{"):
        return "ndjson"
    if _SVMLIGHT.fullmatch(line):
        return "svmlight"
    return "vw" if _VW.fullmatch(line) else "csv"
