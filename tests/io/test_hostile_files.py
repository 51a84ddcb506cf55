"""Damaged and hostile files are rejected with an InputError, or read without their bad lines, in bounded memory."""

from __future__ import annotations

import tracemalloc
from io import RawIOBase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import FORMATS, join_blocks, read_all

from budgetron import io
from budgetron.errors import InputError

TABLE = {"task": ["ann", "bob"] * 20, "a": [float(i) for i in range(40)], "b": ["x", "y"] * 20, "label": [0, 1] * 20}


@pytest.mark.parametrize("content, words", [
    (b"", "the stream is empty; a header or rows of text were expected"),
    (b"\n\n\r\n", "the stream is empty; a header or rows of text were expected"),
    (b"a,b,label\n", "has no rows"),
    (b"\xff\xfea\x00,\x00", "is encoded in UTF-16; UTF-8 is expected"),
    (b"caf\xe9,label\n1,2\n", "line 1: the line is not valid UTF-8"),
    (b"a\x00b,label\n1,2\n", "line 1: the line contains a NUL byte"),
    (b'"a,label\n1,2\n', "line 1: a field opens a quote (\") that is not closed"),
    (b"a,label\n1\n2\n3\n", "line 2: the line has 1 fields instead of 2"),
    (b"label\n1\n0\n", "columns to learn from"),
    (b"a,label\n,\n,\n", "columns to learn from"),
    (b"a,label\n1,0.5\n2,0.7\n", "measurements such as 0.5, not classes"),
    (b"a,label\n" + b"".join(b"1,c%d\n" % i for i in range(1001)), "at most 1,000 classes"),
    (b"a" * 2_000_000, "line 1: the line is longer than 1,048,576 bytes"),
    (b"," * 70_000 + b"\n", "at most 65,536 are accepted"),
])  # fmt: skip
def test_files_that_cannot_be_read_are_rejected_with_a_reason(content, words):
    with pytest.raises(InputError) as error:
        read_all(content, format="csv")
    assert words in str(error.value)


@pytest.mark.parametrize("more, words", [
    ({"label": "c"}, "label: there is no column 'c'"), ({"task": "c"}, "task: there is no column 'c'"),
    ({"drop": ["c"]}, "drop: there is no"), ({"text": "c"}, "text: there is no"),
    ({"categorical": ["c"]}, "categorical: there is no"),
    ({"label": "a", "task": "a"}, "label and task are both the column 'a'"),
    ({"on_error": "go on"}, "on_error must be"),
    ({"block_rows": 0}, "block_rows must be"), ({"columns": 7}, "columns must be"),
])  # fmt: skip
def test_invalid_arguments_of_read_are_rejected(more, words):
    with pytest.raises(InputError) as error:
        read_all(b"a,b,label\n1,2,0\n2,3,1\n", **more)
    assert words in str(error.value)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["auto", "csv", "ndjson", "svmlight", "vw", "parquet", "arrow"]))
def test_random_bytes_cause_no_other_exception_than_input_error(content, format):
    try:
        stream, blocks = read_all(content, format=format, on_error="skip")
    except InputError as error:
        assert len(str(error)) > 20  # a sentence
    else:
        assert sum(map(len, blocks)) == stream.n_rows


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(FORMATS)))
def test_changed_bytes_cause_no_other_exception_than_input_error(data, name):
    content = bytearray(FORMATS[name](TABLE))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        stream, blocks = read_all(bytes(content), on_error="skip")
    except InputError as error:
        assert len(str(error)) > 20
    else:
        values = [block.X.data if hasattr(block.X, "indptr") else block.X for block in blocks]
        assert all(np.isfinite(X).all() for X in values) and sum(map(len, blocks)) == stream.n_rows


class GeneratedFile(RawIOBase):
    """A file that is generated while it is read, from pairs of bytes and their number of repetitions."""

    def __init__(self, *parts):
        self._pieces = (piece for piece, times in parts for _ in range(times))

    def readable(self):
        return True

    def read(self, size=-1):
        # A copy, so that a reader that keeps all pieces takes the memory of all.
        return bytes(bytearray(next(self._pieces, b"")))


def peak_memory(source, **more):
    """The stream at its end, and Python's peak memory in MiB."""
    tracemalloc.start()
    with io.read(source, **more) as stream:
        for _ in stream:
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return stream, peak / 2**20


@pytest.mark.parametrize("n_before", [0, 5000])
def test_a_line_of_a_hundred_megabytes_is_skipped_in_little_memory(n_before):
    rows = b"1,2,0\n3,4,1\n" * 2500
    parts = [(b"a,b,label\n" + rows[: 6 * n_before], 1), (b"x" * 2**20, 100), (b"\n" + rows[6 * n_before :], 1)]
    stream, peak = peak_memory(GeneratedFile(*parts), on_error="skip", format="csv")
    assert stream.n_rows == 5000 and stream.n_bad == 1 and stream.bad[0].number == 2 + n_before
    assert "1,048,576 bytes" in stream.bad[0].reason and peak < 80


@pytest.mark.parametrize("format, head, row", [
    ("csv", b"a,b,label\n", b"%d,x,0\n%d,y,1\n" % (1, 2)), ("ndjson", b"", b'{"a": 1, "b": "x", "y": 0}\n'),
    pytest.param("svmlight", b"", b"1 1:2 7:3\n", marks=pytest.mark.long),
    pytest.param("vw", b"", b"1 |w a b c\n", marks=pytest.mark.long),
])  # fmt: skip
def test_memory_does_not_grow_with_the_file(format, head, row):
    piece = row * 2000
    files = [GeneratedFile((head, 1), (piece, n)) for n in (3, 6 * 2**20 // len(piece))]
    (_, short), (stream, long) = (peak_memory(file, format=format, on_error="skip") for file in files)
    assert stream.n_rows >= 100_000 and long < short + 2  # 2 MiB are a third of the longer file


def test_an_open_quote_rejects_one_line():
    content = b"a,b,label\n" + b'1,x,0\n2,"y,1\n' + b"3,x,0\n4,y,1\n" * 100
    stream, blocks = read_all(content, on_error="skip")
    assert [bad.number for bad in stream.bad] == [3] and stream.n_rows == 201
    assert "column 'b' opens a quote" in stream.bad[0].reason and join_blocks(blocks)[0].shape[0] == 201


def test_many_bad_lines_are_counted_and_few_are_kept():
    stream, _ = read_all(b"a,label\n1,0\n2,1\n" + b"bad\n" * 5000, on_error="skip")
    assert stream.n_bad == 5000 and len(stream.bad) == 20 and stream.bad[-1].number == 23


def test_huge_numbers_and_constant_columns_are_scaled_to_finite_values():
    rows = b"1e99,5,0\n-1e99,5,1\n" * 3000 + b"1e100,6,0\n0,5,1\n"
    _, blocks = read_all(b"a,b,label\n" + rows)
    X = join_blocks(blocks)[0]
    assert np.isfinite(X).all() and np.abs(X).max() <= 10.0
    # Column b is 5 in all rows before the only 6. So there is no scale yet when the 6 is encoded, and it becomes 0 too.
    assert (X[:6001, 1] == 0).all()
