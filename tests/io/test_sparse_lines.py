"""svmlight and Vowpal Wabbit text: the core and the Python readers return equal rows, bit for bit, and equal errors."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from streaming import read_all

from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.io.formats.svmlight import Svmlight
from budgetron.io.formats.vw import VowpalWabbit
from budgetron.io.source import Source
from budgetron.io.table import Selection

pytestmark = pytest.mark.skipif(native.sparse_lines is None, reason="the core is not built")
NUMBERS = ["1", "-2.5", "+.5", "3.", "1e3", "-1E-7", "0.1234567890123456789", "1e-400", "1e99", "1e101", "inf", "nan",
           "-0", "1_0", "0x1", "", ".", "e5", "+", "１", "5e", "123456789012345678"]  # fmt: skip
BLANKS = [" ", "  ", "\t", "\x0b", "\u00a0", "\u2003", "\x1c"]
number = st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
blank = st.sampled_from([" "] * 8 + BLANKS)
words = st.text(st.sampled_from("ab9'#:|^é\u2003\x85 "), max_size=5)
index = st.integers(0, 2**31).map(str) | st.sampled_from(["007", "٣", "-1", "+1", "9" * 12, "1073741823", "1073741824"])
pair = st.tuples(index, st.just(":"), number).map("".join)
svmlight_line = st.lists(pair | words | words.map("qid:{}".format) | blank | number | st.just("# no"), max_size=9)
feature = words | st.tuples(words, st.just(":"), number).map("".join)
vw_line = st.lists(feature | blank | number | st.sampled_from(["|", "|w", "|w:2", "|user ann", "|user a  b", "'tag"]),
                   max_size=12)  # fmt: skip


def joined_by(line):
    return st.tuples(line, st.sampled_from(["", " ", " ", " "])).map(lambda drawn: drawn[1].join(drawn[0]))


def texts(line):
    return st.lists(joined_by(line), min_size=1, max_size=8).map(lambda lines: "\n".join(lines).encode())


READERS = {
    "svmlight": (Svmlight, [None, "qid"]),
    "vw": (VowpalWabbit, [None, "tag", "user", ""]),
}


def tables(kind, task, content, stop):
    reader = READERS[kind][0](Source(io.BytesIO(content)), task, 1 << 18)
    tables = []
    for table, bad in reader.tables(Selection((), ("label", reader.task or "")), 3, stop):
        X, texts = table.sparse, {name: [t.values[c] for c in t.codes] for name, t in table.texts.items()}
        tables += [X.data.tobytes(), X.indices.tolist(), X.indptr.tolist(), texts, table.lines.tolist()]
        tables.append(None if table.weights is None else table.weights.tolist())
        tables.append([table.content(row) for row in range(len(table))])
        tables.append(bad)
        if bad and stop:
            break
    return tables


def check_equal_without_core(kind, task, content, stop, monkeypatch):
    """Assert that a file gives the same tables with and without the core."""
    fast = tables(kind, task, content, stop)
    monkeypatch.setattr(native, "sparse_lines", None)
    slow = tables(kind, task, content, stop)
    monkeypatch.undo()
    assert fast == slow


@settings(max_examples=300, deadline=None)
@given(texts(svmlight_line), st.sampled_from([None, "qid"]), st.booleans())
@example(b"1 1:2\n2 qid:a:b 3:4 3:5 # x\xc3\xa9\n-1 1:inf\n1 2:2", "qid", False)
def test_the_core_reads_svmlight_as_python_does(content, task, stop):
    with pytest.MonkeyPatch.context() as patch:
        check_equal_without_core("svmlight", task, content, stop, patch)


@settings(max_examples=300, deadline=None)
@given(texts(vw_line), st.sampled_from([None, "tag", "user", ""]), st.booleans())
@example(b"1 2.0 'x|user ann b |w a b:2 c\n-1 tag|w:2 c |w:\n1 |w:x a\n|a b", "user", False)
def test_the_core_reads_vowpal_wabbit_as_python_does(content, task, stop):
    with pytest.MonkeyPatch.context() as patch:
        check_equal_without_core("vw", task, content, stop, patch)


def test_common_lines_are_read_by_the_core():
    lines = [b"1 qid:3 1:0.5 7:-2e3 # \xc3\xa9", b"# nothing", b"-1 2:1_0", b"+1 3:\xc3\xa9"]
    ends = np.cumsum([len(line) + 1 for line in lines]) - 1
    begins = np.concatenate([[0], ends[:-1] + 1])
    kinds, indptr, indices, values, *_ = native.sparse_lines(b"\n".join(lines), begins, ends, False, None)
    assert kinds.tolist() == [0, 1, 2, 2] and indptr.tolist() == [0, 2]
    assert indices.tolist() == [1, 7] and values.tolist() == [0.5, -2000.0]
    with pytest.raises(ValueError, match="within the content"):
        native.sparse_lines(b"1 1:1", np.array([0]), np.array([9]), False, None)


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_lines_left_to_python_keep_their_position_among_thousands(packed):
    rows = [b"%d qid:%d %d:%d.5" % (i % 2, i % 7, i % 100, i) for i in range(10_000)]
    rows[6543] = "1 qid:ä 5:٣.5".encode()  # digits that only Python parses
    rows[7777] = b"1 qid:3 5:x"
    stream, blocks = read_all(packed(b"\n".join(rows)), format="svmlight", on_error="skip")
    assert stream.n_rows == 9999 and [bad.number for bad in stream.bad] == [7778]
    y = np.concatenate([block.y for block in blocks])
    assert y.tolist() == [1 if i == 6543 else i % 2 for i in range(10_000) if i != 7777]
    assert [task for block in blocks for task in block.tasks][6543] == "ä"
    expected = sum(i + 0.5 for i in range(10_000)) - 6543.5 - 7777.5 + 3.5
    assert sum(float(block.X.sum()) for block in blocks) == expected
    with pytest.raises(InputError, match=r"line 7778: .* a label and index:value pairs but contains '5:x'"):
        read_all(packed(b"\n".join(rows)), format="svmlight")
