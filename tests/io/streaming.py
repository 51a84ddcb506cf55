"""Helpers of the tests of files: read and compare streams, and write a table in every format with named columns."""

from __future__ import annotations

import csv
import gzip
import json
from io import BytesIO, StringIO

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import zstandard
from scipy import sparse

from budgetron import io


def read_all(source, **more):
    """Read a source to its end. Returns the stream and its blocks."""
    with io.read(BytesIO(source) if isinstance(source, bytes) else source, **more) as stream:
        return stream, list(stream)


def join_blocks(blocks):
    """X (dense), y and tasks of all blocks."""
    X = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in blocks])
    y = None if blocks[0].y is None else [label for block in blocks for label in block.y.tolist()]
    return X, y, None if blocks[0].tasks is None else [task for block in blocks for task in block.tasks.tolist()]


def same_rows(a, b):
    """Whether the blocks of two streams have the same rows, labels and tasks, to the last bit."""
    (Xa, ya, ta), (Xb, yb, tb) = join_blocks(a), join_blocks(b)
    return Xa.tobytes() == Xb.tobytes() and ya == yb and ta == tb


def as_delimited(table, delimiter):
    out = StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue().encode()


def as_ndjson(table):
    rows = zip(*table.values(), strict=True)
    return b"".join(json.dumps(dict(zip(table, row, strict=True))).encode() + b"\n" for row in rows)


def as_arrow(table, write):
    out = BytesIO()
    write(pyarrow.table(table), out)
    return out.getvalue()


def as_arrow_stream(table):
    out = BytesIO()
    rows = pyarrow.table(table)
    with pyarrow.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=3)
    return out.getvalue()


FORMATS = {
    "csv": lambda table: as_delimited(table, ","),
    "semicolons": lambda table: as_delimited(table, ";"),
    "tsv": lambda table: as_delimited(table, "\t"),
    "gzip": lambda table: gzip.compress(as_delimited(table, ",")),
    "three gzip members": lambda table: b"".join(map(gzip.compress, as_delimited(table, ",").partition(b"\r\n"))),
    "zstd": lambda table: zstandard.compress(as_delimited(table, ",")),
    "ndjson": as_ndjson,
    "parquet": lambda table: as_arrow(table, pyarrow.parquet.write_table),
    "feather": lambda table: as_arrow(table, pyarrow.feather.write_feather),
    "arrow stream": as_arrow_stream,
    "zstd of parquet": lambda table: zstandard.compress(as_arrow(table, pyarrow.parquet.write_table)),
}
