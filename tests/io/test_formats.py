"""The same table gives the same rows in every format. Further tests check what is special in each format."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from io import BytesIO, StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import FORMATS, as_delimited, join_blocks, read_all, same_rows

from budgetron import RandomBudgetPerceptron, io
from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.io.formats.ndjson import Ndjson
from budgetron.io.source import Source
from budgetron.io.table import Selection

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).map(str.strip).filter(bool)
NUMBERS = st.none() | st.integers(-(2**40), 2**40) | st.floats(-1e80, 1e80).map(float)


@st.composite
def tables(draw):
    n = draw(st.integers(2, 12))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    return {
        "task": column(st.integers(-5, 5) | WORDS.map(lambda word: "t" + word)) if draw(st.booleans()) else [7] * n,
        "size": [None if value is None else float(value) for value in column(NUMBERS)],
        "count, of it": column(st.integers(-9, 9)),
        'so "called"': column(st.sampled_from(["a,b", 'c"d', "e\tf", "g\nh", "ä", "i;j"])),
        "when": column(st.dates().map(str) | st.none()),
        "flag": column(st.booleans()),
        "label": column(st.sampled_from(["ham", "spam"])),
    }


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from(sorted(FORMATS)), st.integers(1, 5))
def test_every_format_gives_the_same_rows(table, name, block_rows):
    table["task"] = [str(task) for task in table["task"]] if len(set(map(type, table["task"]))) > 1 else table["task"]
    plain = read_all(FORMATS["ndjson"](table), text=['so "called"'])
    other = read_all(FORMATS[name](table), text=['so "called"'], block_rows=block_rows)
    assert plain[0].columns.plan == other[0].columns.plan
    assert same_rows(plain[1], other[1])


def test_formats_are_recognised_by_name_and_by_content(tmp_path):
    table = {"a": [1.0, 2.0, 5.0] * 4, "label": [0, 1, 1] * 4}
    for number, (name, write) in enumerate(FORMATS.items()):
        path = tmp_path / f"file {number}"  # the name has no extension
        path.write_bytes(write(table))
        stream, blocks = read_all(path)
        assert join_blocks(blocks)[1] == table["label"], name
        assert stream.bytes_total == path.stat().st_size == stream.bytes_read, name
    (tmp_path / "a.tsv").write_bytes(b"a,b\tlabel\n1,5\tx\n2,5\ty\n")
    assert read_all(tmp_path / "a.tsv")[0].columns.names == ["a,b"]


def test_a_stream_is_read_from_standard_input():
    program = "from budgetron import io; print([b.y.tolist() for b in io.read('-')])"
    content = gzip.compress(b"a,label\n1,x\n2,y\n")
    run = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=True)
    assert run.stdout == b"[['x', 'y']]\n"


def test_bytes_read_and_total_bytes_are_reported(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,label\n1,x\n2,y\n")
    with open(tmp_path / "a.csv", "rb") as file:
        stream, blocks = read_all(file)
    assert stream.bytes_total == stream.bytes_read == 16 and len(blocks[0]) == 2
    assert read_all(b"a,label\n1,x\n2,y\n")[0].bytes_total is None


def test_rows_of_a_pipe_are_available_at_once():
    columns = read_all(b"a,label\n1,0\n2,1\n")[0].columns
    program = "import sys, time; sys.stdout.write('a,label\\n3,1\\n'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as run:
        with io.read(run.stdout, columns=columns) as stream:
            first = next(iter(stream))  # the writer still has the pipe open
        assert first.y.tolist() == [1]
        run.stdin.close()


def test_files_without_a_header_get_numbered_columns():
    stream, blocks = read_all(b"1,2,0\n3,4,1\n5,9,0\n")
    assert stream.columns.names == ["column 1", "column 2"] and join_blocks(blocks)[1] == [0, 1, 0]
    stream, _ = read_all(b"2019,2020\n3,0\n5,1\n", header=True)
    assert stream.columns.label == "2020"


def test_repeated_and_missing_column_names_are_numbered():
    stream, _ = read_all(b"a,a,,a.2,label\n1,2,3,4,0\n2,7,4,5,1\n")
    assert stream.columns.names == ["a", "a.3", "column 3", "a.2"]


def test_quotes_newlines_byte_order_marks_and_carriage_returns():
    content = b'\xef\xbb\xbfwhat,label\r\n"a ""b""\r\nc",x\r\n\r\n"d",y\r\n"a ""b""\r\nc",x'
    stream, (block,) = read_all(content)
    assert stream.columns.feature_names == ['what=a "b"\r\nc', "what=d", "what=other"]
    assert block.rows.tolist() == [2, 5, 6] and block.X.argmax(axis=1).tolist() == [0, 1, 0]


def test_nested_json_objects_lists_and_nan_are_read():
    lines = b'{"a": {"b": 1, "c": {"d": "x"}}, "e": ["p", "q"], "y": 1}\n\n{"a": {"b": NaN}, "e": [], "y": 0}\n'
    stream, (block,) = read_all(lines)
    assert stream.columns.names == ["a.b", "a.c.d", "e"]
    assert block.y.tolist() == [1, 0] and block.rows.tolist() == [1, 3]
    assert block.X[1].tolist() == [0, 1, 1, 0, 0, 1, 0, 0]  # b is missing, d is missing, and the list e is empty


def test_invalid_json_lines_are_skipped_or_reported():
    content = b'{"a": 1, "y": 1}\n{"a": 1\n[1]\n{"a": "x", "y": 0}\n{"a": 1e999, "y": 0}\n{"a": 3, "y": 0}\n'
    content += b"[" * 5000 + b"\n" + b'{"a": 1, "y": 1}\n' * 60
    stream, _ = read_all(content, on_error="skip")
    assert [bad.number for bad in stream.bad] == [2, 3, 4, 5, 7] and stream.n_rows == 62
    with pytest.raises(InputError, match=r"line 2: the line should be a JSON object"):
        read_all(content)
    with pytest.raises(InputError, match="contains a JSON list; one JSON object per line"):
        read_all(b'[{"a": 1, "y": 1}]', format="ndjson")


@pytest.mark.parametrize("in_core", [True, False], ids=["core", "numpy"])
def test_half_of_a_surrogate_pair_is_read_as_a_replacement_character(in_core, monkeypatch, tmp_path):
    """JSON can escape half of a pair, as in an emoji that was cut. Neither UTF-8 nor a model file can hold a half."""
    if not in_core:
        for name in ("json_lines", "hashed_words", "joined_rows"):
            monkeypatch.setattr(native, name, None)

    def content(half):
        rows = []
        for i in range(6000):
            texts = {"body": f"some {half} words{half}{i % 7}", "colour": half + ["red", "blue"][i % 2]}
            names = {"user": f"ann {half}" if i % 3 else "bob", "label": f"{half}a" if i % 5 else "b"}
            rows.append({"size" + half: i, **texts, "item": f"{half}item {i}", **names})
        texts_only = [{name: value for name, value in row.items() if isinstance(value, str)} for row in rows[:9]]
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows), texts_only

    more = {"text": ["body"], "categorical": ["item"], "classes": ["\udc00a", "b"]}
    (halves, records), (replaced, expected_records) = content("\ud83d"), content("\ufffd")
    assert b"\\ud83d" in halves and b"\\ud83d" not in replaced
    stream, blocks = read_all(halves, **more)
    other, other_blocks = read_all(replaced, **more)
    assert stream.columns == other.columns and stream.columns.names[0] == "size\ufffd"
    for block, expected in zip(blocks, other_blocks, strict=True):
        assert (block.X != expected.X).nnz == 0
        assert block.y.tolist() == expected.y.tolist() and block.tasks.tolist() == expected.tasks.tolist()
    assert (stream.columns.encode(records) != stream.columns.encode(expected_records)).nnz == 0
    model = RandomBudgetPerceptron(budget=5)
    for block in blocks:
        model.partial_fit(block.X, block.y, tasks=block.tasks, classes=["b", "\ufffda"])
    io.save_model(tmp_path / "m", model, stream.columns)
    assert io.load_model(tmp_path / "m")[1] == stream.columns


SVMLIGHT = b"1 qid:3 1:0.5 7:2\n-1 qid:ann 2:1 # a comment\n# only a comment\n+1 qid:3 300000:1 7:1 7:2\n"


def test_svmlight_labels_tasks_and_features():
    stream, (block,) = read_all(SVMLIGHT)
    assert block.y.tolist() == [1, -1, 1] and block.tasks.tolist() == [3, "ann", 3] and block.rows.tolist() == [1, 2, 4]
    assert block.X.shape == (3, 2**19) and block.X[0, [1, 7]].toarray().tolist() == [[0.5, 2.0]] and block.X[2, 7] == 3
    _, (again,) = read_all(b"1 qid:3 524289:2\n", columns=stream.columns, labelled=False)
    assert again.X[0, 1] == 2 and again.y is None  # 524,289 = 2**19 + 1 wraps around to column 1


def test_svmlight_takes_its_width_from_the_first_row_even_after_many_comments():
    _, blocks = read_all(b"# nothing\n" * 10_000 + SVMLIGHT, format="svmlight")
    _, without_comments = read_all(SVMLIGHT)
    assert [list(block.tasks) for block in blocks if len(block.y)] == [list(block.tasks) for block in without_comments]
    assert blocks[-1].X.shape[1] == without_comments[-1].X.shape[1] == 2**19


@pytest.mark.parametrize("arguments, got", [({"drop": ["x"]}, "['x']"), ({"label": "a", "text": "b"}, "['a', 'b']"),
                                            ({"label": "label", "weight": "w"}, "['w']")])  # fmt: skip
def test_columns_of_svmlight_are_rejected_by_the_names_that_were_given(arguments, got):
    with pytest.raises(InputError, match=re.escape(f"but svmlight has none; got {got}.")):
        read_all(SVMLIGHT, **arguments)


def test_svmlight_tasks_may_be_in_another_file(tmp_path):
    (tmp_path / "tasks").write_text("ann\nbob\nignored\n12\n")
    stream, (block,) = read_all(SVMLIGHT, task=f"file:{tmp_path / 'tasks'}")
    assert block.tasks.tolist() == ["ann", "bob", 12]
    with pytest.raises(InputError, match='task must be "file:PATH"'):
        read_all(SVMLIGHT, columns=stream.columns)
    with pytest.raises(InputError, match="line 4: column 'file' should name the task but is empty"):
        (tmp_path / "tasks").write_text("ann\nbob\n")
        read_all(SVMLIGHT, task=f"file:{tmp_path / 'tasks'}")


def test_an_empty_line_in_a_file_of_tasks_leaves_the_other_tasks_where_they_are(tmp_path):
    """The file of tasks is read in blocks of 4,096 lines. No block after the one with the empty line may be lost."""
    n, empty = 10_000, 10
    names = [f"user {i % 7}" for i in range(n)]
    (tmp_path / "tasks").write_text("".join("\n" if i == empty else f"{name}\n" for i, name in enumerate(names)))
    rows = b"".join(b"%d 1:%d\n" % (i % 2, i) for i in range(n))
    stream, blocks = read_all(rows, task=f"file:{tmp_path / 'tasks'}", format="svmlight", on_error="skip")
    tasks = [task for block in blocks for task in block.tasks.tolist()]
    assert tasks == names[:empty] + names[empty + 1 :]
    assert [bad.number for bad in stream.bad] == [empty + 1]


def test_an_invalid_line_in_a_file_of_tasks_leaves_the_other_tasks_where_they_are(tmp_path):
    (tmp_path / "tasks").write_bytes(b"\xff\nann\nbob\n")
    _, (block,) = read_all(b"# comment\n1 1:1\n0 1:2\n", task=f"file:{tmp_path / 'tasks'}", format="svmlight")
    assert block.tasks.tolist() == ["ann", "bob"]


@pytest.mark.parametrize("line", [b"1 2", b"1 x:2", b"1 1:x", b"1 -1:2", b"1 1:inf", b"1 99999999999:1"])
def test_invalid_svmlight_lines_are_skipped(line):
    stream, _ = read_all(SVMLIGHT + line + b"\n", on_error="skip", format="svmlight")
    assert stream.n_rows == 3 and stream.bad[0].number == 5 and stream.bad[0].content == line.decode()


def test_vowpal_wabbit_labels_tasks_weights_and_features():
    content = b"1 2.0 'x|user ann |w a b:2 c\n-1 |user bob |w:2 c\n1 t2|w a| a\n"
    _, (block,) = read_all(content[:48] + b"\n", task="user")
    assert block.y.tolist() == [1, -1] and block.tasks.tolist() == ["ann", "bob"] and block.weights.tolist() == [2, 1]
    assert block.X[0].nnz == 3 and block.X[1].nnz == 1 and block.X[0].sum() == 4 and block.X[1].sum() == 2
    assert set(block.X[1].indices) < set(block.X[0].indices)  # both rows have the feature c of |w
    _, (block,) = read_all(content, task="tag", on_error="skip")
    assert block.tasks.tolist() == ["x", "t2"] and block.X[1].nnz == 2  # `a` of |w and `a` without a namespace


@pytest.mark.parametrize("line", [b"1", b"1 x |w a", b"1 2 3 4 |w a", b"1 -2 |w a", b"1 |w a:x", b"1 |w:nan a"])
def test_invalid_vowpal_wabbit_lines_are_skipped(line):
    stream, _ = read_all(b"1 |w a\n-1 |w b\n" + line + b"\n", on_error="skip")
    assert stream.n_rows == 2 and stream.bad[0].number == 3


def test_every_parquet_type_is_read():
    import datetime
    import decimal

    import pyarrow as pa

    rows = pa.table({
        "number": pa.array([1, None, 3], pa.uint8()),
        "dec": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(2)]),
        "cat": pa.array(["a", "b", None]).dictionary_encode(),
        "day": pa.array([datetime.date(2024, 1, d) for d in (1, 2, 3)]),
        "at": pa.array([1_700_000_000_123_456_789] * 3, pa.timestamp("ns", "UTC")),
        "in": pa.array([{"x": 1}, {"x": 2}, None]), "y": pa.array([True, False, True]),
    })  # fmt: skip
    out = BytesIO()
    pa.parquet.write_table(rows, out)
    stream, (block,) = read_all(out.getvalue())
    kinds = [(line.column, line.kind) for line in stream.columns.describe() if line.role == "feature"]
    assert kinds == [("number", "number"), ("dec", "number"), ("cat", "category"), ("day", "date"), ("at", "date"),
                     ("in.x", "number")]  # fmt: skip
    assert block.y.tolist() == [True, False, True] and np.isfinite(block.X).all()


def test_sources_that_cannot_be_read_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"^No such file: .*none.csv"):
        io.read(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"^Cannot read .*directory"):
        io.read(tmp_path)
    broken = [(b"PAR1 and no more", "auto"), (b"ARROW1 and no more", "auto"), (b"x", "parquet"), (b"", "arrow")]
    for content, format in broken:
        with pytest.raises(InputError, match="cannot be read as"):
            read_all(content, format=format)
    with pytest.raises(InputError, match="format must be one of"):
        read_all(b"a,y\n1,1\n", format="xlsx")
    with pytest.raises(InputError, match="opened in binary mode"):
        io.read(StringIO("a,y\n1,1\n"))


def test_a_source_is_read_to_its_end_or_up_to_a_size():
    for size, expected in [(-1, b"0123456789"), (4, b"0123"), (100, b"0123")]:  # the first four bytes are read ahead
        raw = Source(BytesIO(b"0123456789"))._raw
        assert raw.read(size) == expected
        assert raw.read() == b"0123456789"[len(expected) :]


def test_damaged_compressed_files_are_rejected():
    packed = gzip.compress(as_delimited({"a": list(range(9999)), "y": [0, 1, 1] * 3333}, ","))
    with pytest.raises(InputError, match="damaged or incomplete"):
        read_all(packed[:-9000])
    with pytest.raises(InputError, match="damaged or incomplete"):
        read_all(FORMATS["zstd"]({"a": list(range(9999)), "y": [0, 1, 1] * 3333})[:-9] + b"123456789")


JSON_VALUES = ["1", "-2.5", "1e999", "99999999999999999999999", '"x"', '"1.5"', '"\\u00e9"', "true", "null", "NaN",
               "Infinity", "[1, 2]", "[]", "{}", '{"b": 1}', '"\\x"', "01", ""]  # fmt: skip
json_pair = st.tuples(st.sampled_from(["a", "b", "y", "extra", "é"]), st.sampled_from(JSON_VALUES))
json_line = st.lists(json_pair, max_size=5).map(
    lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
)
json_lines = st.lists(json_line | st.sampled_from(["", " ", "[1]", "3", '{"a": 1} {"a": 2}', '{"a":', "x"]), max_size=8)


@settings(max_examples=150, deadline=None)
@given(json_lines, st.booleans())
def test_decoding_only_selected_json_values_gives_the_same_tables(lines, stop):
    content = "\n".join(["", *lines]).encode()
    selection = Selection(("a",), ("b", "y"))

    def read():
        reader, tables = Ndjson(Source(BytesIO(content))), []
        for table, bad in reader.tables(selection, 3, stop):
            texts = {name: [text.values[code] for code in text.codes] for name, text in table.texts.items()}
            tables += [table.lines.tolist(), table.numbers.tobytes(), texts, bad]
            if bad and stop:
                break
        return tables

    selective = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("budgetron.io.formats.ndjson._is_top_level", lambda name: False)
        assert read() == selective
