"""CSV and TSV: which lines are read and which are rejected. The core scans a file as Python's csv module does."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import read_all, same_rows

from budgetron import io
from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.io.formats.scan import (
    IGNORED,
    MAX_RECORD,
    NUMBER,
    TEXT,
    TEXT_AFTER_QUOTE,
    UNCLOSED_QUOTE,
    UNKNOWN_FIELD,
    scan,
    scan_with_csv,
)

SIMPLE = b"user,age,colour,bought\nann,20,red,no\nbob,,blue,yes\nann,40,red,no\n"


def test_labels_tasks_and_columns_of_a_small_csv_file():
    stream, (block,) = read_all(SIMPLE)
    assert block.y.tolist() == ["no", "yes", "no"] and block.tasks.tolist() == ["ann", "bob", "ann"]
    assert block.rows.tolist() == [2, 3, 4] and stream.classes == ["no", "yes"]
    assert block.X[:, 0].tolist() == [-1.0, 0.0, 1.0]  # mean 30, deviation 10
    assert block.X[:, 1:].tolist() == [[0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_block_sizes_do_not_change_the_rows(block_rows):
    rng = np.random.default_rng(0)
    rows = [f"{t},{a:.3f},{b},{'spam' if a > b else 'ham'}" for t, a, b in zip(
        rng.integers(9, size=4500), rng.normal(size=4500) * np.arange(4500), rng.normal(size=4500), strict=True)]
    content = ("task,a,b,label\n" + "\n".join(rows)).encode()
    assert same_rows(read_all(content)[1], read_all(content, block_rows=block_rows)[1])


PIECES = [b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b"1.5", b"-2e3", b" ", b"NA", b"\x00", b"\xff",
          "é".encode(), b"TRUE", b"1e999", b"1e-999", b"-0", b"+.5", b".", b"inf"]  # fmt: skip
RANDOM_CSV = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)
KINDS = st.lists(st.sampled_from([IGNORED, NUMBER, TEXT]), max_size=3).map(bytes)


def without_unknown_field(bad):
    """A bad record, without its field if Python's csv module cannot tell which field it is."""
    return bad._replace(field=UNKNOWN_FIELD) if bad.problem in (TEXT_AFTER_QUOTE, UNCLOSED_QUOTE) else bad


def assert_same_scan(*arguments):
    by_core, by_csv = scan(*arguments), scan_with_csv(*arguments)
    assert [without_unknown_field(bad) for bad in by_core.bad] == by_csv.bad
    for name in ("consumed", "n_lines", "in_long_line"):
        assert getattr(by_core, name) == getattr(by_csv, name), name
    for name in ("numbers", "first_lines", "begins", "ends"):
        assert getattr(by_core, name).tobytes() == getattr(by_csv, name).tobytes(), name
    for a, b in zip(by_core.texts, by_csv.texts, strict=True):
        assert a.values == b.values and a.codes.tolist() == b.codes.tolist()


@pytest.mark.skipif(native.scan is None, reason="built without the core")
@settings(max_examples=200, deadline=None)
@given(RANDOM_CSV, st.booleans(), KINDS, st.integers(3, 30))
def test_the_core_scans_as_csv_does(content, last, kinds, max_record):
    assert_same_scan(content, 0, last, ",", kinds, 5, 4, max_record)


@pytest.mark.skipif(native.scan is None, reason="built without the core")
@pytest.mark.parametrize("content", [
    b'"x",a\rb', b'"x\ry",\r', b'"x",a\r\r\n', b'"x"\r,a', b'"x",\r\n"\r",y', b'"x\r\n\ry",a\r', b"-0,-0.0",
])  # fmt: skip
def test_the_core_scans_carriage_returns_and_negative_zeros_as_csv_does(content):
    kinds = [NUMBER, NUMBER] if content.startswith(b"-") else [TEXT, TEXT]
    assert_same_scan(content, 0, True, ",", bytes(kinds), 5, 4, MAX_RECORD)


@pytest.mark.skipif(native.scan is None, reason="built without the core")
def test_the_core_numbers_many_distinct_texts_as_csv_does():
    # The core's hash table begins with fewer slots than there are values. Some values occur again, and some are
    # prefixes of others.
    numbers = np.random.default_rng(0).integers(0, 1500, 3000).tolist()
    rows = [f'"{"x" * (i % 40)} ""{i % 7}"" ",{i},{"" if i % 3 else "é"}' for i in numbers]
    arguments = ("\n".join(rows).encode(), 0, True, ",", bytes([TEXT, TEXT, TEXT]), 4000, 1, MAX_RECORD)
    by_core, by_csv = scan(*arguments), scan_with_csv(*arguments)
    assert len(by_core.first_lines) == 3000
    for a, b in zip(by_core.texts, by_csv.texts, strict=True):
        assert a.values == b.values and a.codes.tolist() == b.codes.tolist()


def test_csv_is_read_without_the_core(monkeypatch):
    rows = [f'{i % 3},{i / 7 if i % 5 else ""},"a ""b"", {i % 4}",{i % 2}' for i in range(300)]
    content = ("task,size,kind,label\r\n" + "\r\n".join(rows)).encode() + b"\r\n1,x\r\n"
    with_core = read_all(content, on_error="skip")
    monkeypatch.setattr(native, "scan", None)  # as in an installation without a compiler
    without = read_all(content, on_error="skip", block_rows=7)
    assert same_rows(with_core[1], without[1]) and with_core[0].bad == without[0].bad and without[0].n_bad == 1


@pytest.mark.skipif(native.scan is None, reason="built without the core")
def test_headers_and_wrong_numbers_may_have_long_fields_and_carriage_returns():
    # The csv module limits a field to 131,072 characters, and rejects a carriage return outside quotes.
    long = "x" * 140_000
    stream, _ = read_all(f'a,"{long}",la\rbel\n1,2,no\n3,4,yes\n'.encode())
    assert stream.columns.names[0] == "a" and stream.columns.label == "la\rbel"
    lines = ["1,u,no", "3,v,yes"] * 60 + [f'z\rz,"{long}",no']
    stream, _ = read_all(("a,b,label\n" + "\n".join(lines)).encode(), on_error="skip")
    assert stream.bad[0].number == 122
    assert stream.bad[0].reason == "column 'a' should be a number but contains 'z\\rz'"


def test_without_the_core_a_long_field_beside_quotes_is_rejected_as_such(monkeypatch):
    monkeypatch.setattr(native, "scan", None)
    content = SIMPLE + b'cid,1,"' + b"r" * 131_073 + b'",no\nann,40,red,no\n'
    with pytest.raises(InputError, match=r"line 5: a field is longer than 131,072 characters, .* the compiled core"):
        read_all(content)
    stream, (block,) = read_all(content, on_error="skip")
    assert stream.n_bad == 1 and block.rows.tolist() == [2, 3, 4, 6]


@pytest.mark.parametrize("line, why", [
    (b"cid,1,red", "the line has 3 fields instead of 4"),
    (b"cid,x,red,no", "column 'age' should be a number but contains 'x'"),
    (b"cid,1,red,", "labels"),
    (b",1,red,no", "name the task"), (b"cid,1,\xff,no", "UTF-8"), (b"cid,1,\x00,no", "NUL"),
    (b'cid,1,"red"x,no', "quote"),
    (b"cid,inf,red,no", "a number"), (b"cid,1," + b"r" * (MAX_RECORD + 1) + b",no", "bytes"),
])  # fmt: skip
def test_an_invalid_csv_line_is_skipped_or_reported_with_its_number(line, why):
    content = SIMPLE + b"ann,30,red,no\n" * 40 + line + b"\n" + b"bob,1,blue,yes\n"
    with pytest.raises(InputError, match=r"^f\.csv, line 45: .*on_error") as error:
        source = BytesIO(content)
        source.name = "f.csv"
        n_rows = 0
        with io.read(source) as stream:
            for block in stream:
                n_rows += len(block)
    assert why in str(error.value) and n_rows == 43
    stream, blocks = read_all(content, on_error="skip")
    assert stream.n_bad == 1 and stream.n_rows == 44 and blocks[-1].rows[-1] == 46
    assert stream.bad[0].number == 45 and why in stream.bad[0].reason and len(stream.bad[0].content) <= 200


@pytest.mark.parametrize("block_rows", [1, 2, 4000])
def test_bad_lines_before_the_last_row_of_the_limit_are_counted(block_rows):
    # Line 4 has too many fields. Lines 5 and 7 have no label.
    content = b"a,label\n1,x\n2,y\n3,4,x\n3,\n3,y\n4,\n" + b"5,y\n" * 30
    stream, blocks = read_all(content, on_error="skip", limit=3, block_rows=block_rows)
    assert np.concatenate([block.rows for block in blocks]).tolist() == [2, 3, 6]
    assert stream.n_bad == 2 and [line.number for line in stream.bad] == [4, 5]
    stream, _ = read_all(content, limit=2, block_rows=block_rows)
    assert stream.n_rows == 2 and stream.n_bad == 0


@pytest.mark.parametrize("cut", [1, 4000, 5000])
def test_a_file_in_two_parts_gives_the_rows_of_one_pass(cut):
    rng = np.random.default_rng(1)
    lines = [f"{x:.3f},{int(x > 0)}" for x in rng.normal(size=9000) * np.linspace(1, 5, 9000)]
    lines[5000] = "oops,1"
    content = "\n".join(["x,label", *lines]).encode()
    whole = np.concatenate([block.X for block in read_all(content, on_error="skip")[1]])
    stream, before = read_all(content, on_error="skip", limit=cut)
    _, after = read_all(content, on_error="skip", columns=stream.columns, skip=cut)
    assert stream.n_rows == cut and np.array_equal(np.concatenate([block.X for block in before + after]), whole)
    assert [len(block) for block in read_all(content, on_error="skip", skip=8990, limit=3)[1]] == [3]
    with pytest.raises(ValueError, match="limit must be an integer >= 1"):
        read_all(content, limit=0)
