"""NDJSON: lines that the core parses have the same values as in Python, and Python parses all other lines."""

from __future__ import annotations

import io as bytes_io
import json
import random

import numpy as np
import pytest

from budgetron import io
from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.io.formats.ndjson import Ndjson
from budgetron.io.source import Source
from budgetron.io.table import Selection

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
SELECTION = Selection(("a", "b"), ("c", "label", "é"))

NUMBERS = ["0", "-0", "1", "-17", "0.5", "-0.0", "1e3", "1E+3", "2.5e-3", "123456789012345678",
           "12345678901234567890123", "0.1234567890123456789", "1e99", "1e100", "1.0e101", "1e400", "true", "false",
           "null", "3.0",
           "-1e-320", "9007199254740993", '"7"', '"x"', "NaN", "-Infinity", "01", "1.", ".5", "+1", "1e", "--1", "[1]",
           '{"x":1}',
           "tru", "nul", "0x10"]  # fmt: skip
TEXTS = ['"x"', '""', '"a b"', r'"tab\there"', r'"\u00e9\ud83d\ude42"', r'"\ud800"', r'"\udc00x"', r'"\u12"', r'"\x"',
         '"é🙂"', '"quote \\" in"', r'"\/\\\b\f\n\r"', "1", "-5", "0", "-0", "1.5", "123456789012345678",
         "1234567890123456789",
         "true", "false", "null", "[1, 2]", '["a"]', '{"x": 2}', '"open', "\"\t\"", '"\x7f"', '"NA"']  # fmt: skip
OTHERS = ["1", "1.5e7", '"x"', '"\\u0041"', "[]", "[1, [2, {}]]", "{}", '{"a": {"b": [null, true]}}', "[1,]", '{"a"}',
          "[" * 70 + "]" * 70, "nope", '{"a":1,}', "false", "null", "1e400"]  # fmt: skip


def tables(lines):
    """Return everything that the reader returns: numbers, texts, distinct values, line numbers, bad lines, contents."""
    reader, rows_read = Ndjson(Source(bytes_io.BytesIO(b"\n".join(lines) + b"\n"))), []
    for table, bad in reader.tables(SELECTION, len(lines) + 1, stop=False):
        texts = {name: [column.values[code] for code in column.codes] for name, column in table.texts.items()}
        values = {name: column.values for name, column in table.texts.items()}
        contents = [table.content(row) for row in range(len(table))]
        rows_read.append((table.numbers.tobytes(), texts, values, table.lines.tolist(), bad, contents))
    return rows_read


def is_parsed_by_core(lines):
    """Whether the core parses all these lines itself."""
    joined = b"\n".join(lines)
    ends = np.cumsum([len(line) + 1 for line in lines]) - 1
    begins = ends - [len(line) for line in lines]
    return native.json_lines(joined, begins, ends, SELECTION.numbers, SELECTION.texts) is not None


def check_equal_without_core(monkeypatch, lines):
    """Assert that the lines give the same tables with and without the core."""
    fast = tables(lines)
    with monkeypatch.context() as without_core:
        without_core.setattr(native, "json_lines", None)
        assert tables(lines) == fast


def random_line(rng):
    """A random JSON line: mostly valid, with some unusual values, and sometimes with a wrong character."""
    members = [f'"a": {rng.choice(NUMBERS[:8])}', f'"b":{rng.choice(NUMBERS[:8])}', f'"c" : {rng.choice(TEXTS[:5])}',
               f'"label": {rng.choice(TEXTS[:3])}', f'"other":{rng.choice(OTHERS[:8])}', '"é":"é"', r'"\u00e9": "e"',
               f'"a": {rng.choice(NUMBERS)}', f'"c": {rng.choice(TEXTS)}', f'"x":{rng.choice(OTHERS)}']  # fmt: skip
    chosen = rng.sample(members[:7] if rng.random() < 0.7 else members, rng.randrange(0, 7))
    line = "{" + rng.choice([",", " , ", ",\t"]).join(chosen) + "}"
    if rng.random() < 0.1:
        i = rng.randrange(len(line))  # insert or replace a character, or delete one
        other = rng.choice(['"', "{", "}", ",", ":", " ", "\\", "", "x"])
        line = line[:i] + other + line[i + rng.randrange(2) :]
    return (rng.choice(["", " ", "\t"]) + line + rng.choice(["", "  ", "\r"])).encode()


@pytest.mark.parametrize("n, min_in_core", [(1, 400), (3, 150)])
def test_random_json_lines_are_parsed_as_in_python(monkeypatch, n, min_in_core):
    rng, n_in_core = random.Random(n), 0
    for _ in range(900):
        lines = [random_line(rng) for _ in range(n)]
        n_in_core += is_parsed_by_core(lines)
        check_equal_without_core(monkeypatch, lines)
    assert n_in_core > min_in_core  # otherwise the test would compare Python with itself


@pytest.mark.parametrize("name, values", [("a", NUMBERS), ("c", TEXTS), ("other", OTHERS)])
def test_unusual_json_values_are_parsed_as_in_python(monkeypatch, name, values):
    for value in values:
        check_equal_without_core(monkeypatch, [f'{{"{name}": {value}, "label": "x"}}'.encode()])
        check_equal_without_core(monkeypatch, [f'{{"{name}": 1, "{name}": {value}}}'.encode(), b'{"label": "y"}'])


def test_common_lines_are_parsed_in_the_core():
    full = {"a": 1, "b": -2.5e-7, "c": "é\n", "label": True, "x": {"y": [1, None, "z"]}}
    rows = [full, {"a": None, "c": 12, "é": "ü"}]
    for ascii_only in (True, False):
        assert is_parsed_by_core([json.dumps(row, ensure_ascii=ascii_only).encode() for row in rows])


def test_numbers_that_stand_for_missing_values_are_recognised(monkeypatch):
    sizes = [-999 if i % 5 == 0 else i for i in range(60)]
    content = "".join(f'{{"size": {size}, "label": "{"ab"[size % 2]}"}}\n' for size in sizes).encode()

    def blocks():
        with io.read(bytes_io.BytesIO(content), format="ndjson", na_values=["-999"], block_rows=16) as stream:
            return [(block.X.tobytes(), block.y.tolist(), block.rows.tolist()) for block in stream]

    fast = blocks()
    monkeypatch.setattr(native, "json_lines", None)
    assert blocks() == fast


@pytest.mark.parametrize(
    "bad", [b'{"a": 1, "label": "x"', b"[1]", b'{"a": tru, "label": "x"}', b'{"a": "one", "label": "x"}']
)
def test_errors_name_the_same_line(monkeypatch, bad):
    content = b'{"a": 1, "label": "x"}\n{"a": 2, "label": "y"}\n' * 3000 + bad + b'\n{"a": 2, "label": "y"}\n'

    def message():
        with pytest.raises(InputError) as caught, io.read(bytes_io.BytesIO(content), format="ndjson") as stream:
            for _ in stream:
                pass
        return str(caught.value)

    fast = message()
    assert "line 6001" in fast
    monkeypatch.setattr(native, "json_lines", None)
    assert message() == fast
