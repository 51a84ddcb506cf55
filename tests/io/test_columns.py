"""The inferred types of columns, and how their values are encoded."""

from __future__ import annotations

import ast
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import as_delimited, join_blocks, read_all

from budgetron.errors import InputError
from budgetron.io.encoding.running_scale import RunningScale
from budgetron.io.encoding.values import parse_date, parse_integer, parse_number, parse_task


def kinds(table, **more):
    """Column → its inferred kind, or the reason why it is ignored."""
    stream, _ = read_all(as_delimited(table, ","), on_error="skip", **more)
    described = [line for line in stream.columns.describe() if line.role in ("feature", "ignored")]
    return {line.column: line.kind or line.note for line in described}


def test_column_types_are_inferred_from_the_first_rows():
    n = 200
    table = {
        "column 1": range(n), "number": [None if i % 3 else i / 7 for i in range(n)],
        "truth": ["True", "FALSE"] * (n // 2), "nearly": ["x" if i == 50 else i % 7 for i in range(n)],
        "codes": [f"{i % 5}a" for i in range(n)],
        "many": [f"c{i % 90}" for i in range(n)], "day": [f"2024-01-{1 + i % 31:02}" for i in range(n)],
        "time": [f"2024-01-01T{i % 24:02}:00Z" for i in range(n)], "name": [f"id{i}" for i in range(n)],
        "words": [f"some words and {i}" for i in range(n)], "nothing": ["NA"] * n, "y": ["a", "b"] * (n // 2),
    }  # fmt: skip
    assert kinds(table) == {
        "column 1": "it numbers the rows", "number": "number", "truth": "number", "nearly": "number",
        "codes": "category", "many": "category", "day": "date", "time": "date",
        "name": "a different value on every row: an identifier",
        "words": "text", "nothing": "no value in the first rows",
    }  # fmt: skip
    asked = kinds(table, drop=["number"], categorical=["nearly", "name"], text="codes")
    assert asked["number"] == "as asked" and asked["nearly"] == asked["name"] == "category" and asked["codes"] == "text"


@pytest.mark.parametrize("word", ["inf", "-inf", "+Infinity", "1e200"])
def test_an_infinite_number_in_a_small_file_is_a_bad_line_of_a_column_of_numbers(word):
    table = as_delimited({"a": [1, word, 3], "y": [0, 1, 0]}, ",")
    with pytest.raises(InputError, match=rf"line 3: column 'a' should be a number but contains '{re.escape(word)}'"):
        read_all(table)
    stream, blocks = read_all(as_delimited({"a": [1, word, 3], "y": [0, 1, 0]}, ","), on_error="skip")
    assert stream.n_bad == 1 and len(join_blocks(blocks)[0]) == 2 and stream.columns.warnings() == []


def test_a_category_whose_values_are_mostly_numbers_is_reported():
    table = {"a": [1, "often", 3, "NA"], "b": ["x", "y", "z", 1], "c": [1, "nan", "", 2], "y": [0, 1, 0, 1]}
    stream, _ = read_all(as_delimited(table, ","))
    assert kinds(table) == {"a": "category", "b": "category", "c": "number"}
    (warning,) = stream.columns.warnings()
    assert "'a' is read as categories, although 2 of 3 values are numbers: 'often' is not" in warning
    assert read_all(as_delimited(table, ","), categorical=["a"])[0].columns.warnings() == []


@pytest.mark.parametrize("names, label, task", [
    (["a", "b"], "b", None), (["y", "b"], "y", None), (["Class", "y", "b"], "y", None),
    (["user", "b", "c"], "c", "user"), (["b", "Target", "device_id"], "Target", "device_id"),
    (["a", "b", "user"], "b", "user"), (["A", "x", "a"], "a", None), (["x", "Y", "y", "b"], "Y", None),
])  # fmt: skip
def test_label_and_task_are_recognised_by_their_names(names, label, task):
    stream, _ = read_all(as_delimited({name: [1, 2, 1, 2] for name in names} | {names[0]: [1, 2, 2, 1]}, ","))
    assert (stream.columns.label, stream.columns.task) == (label, task)
    assert [line.note for line in stream.columns.describe() if line.role == "label"] != [""]


def test_missing_and_unknown_values_after_the_first_rows_are_encoded():
    rows = [(float(i % 5), "rx"[i % 2], i % 2) for i in range(5000)] + [("", "new", 1), ("NA", "", 0)]
    stream, blocks = read_all(as_delimited(dict(zip(["size", "kind", "y"], zip(*rows, strict=True), strict=True)), ","))
    X = join_blocks(blocks)[0]
    assert stream.columns.feature_names == ["size", "kind=r", "kind=x", "kind=other"]  # no column for missing sizes
    assert X[-2].tolist() == X[-1].tolist() == [0, 0, 0, 1]
    many = [(f"c{i % 50}", i % 2) for i in range(300)]
    stream, blocks = read_all(as_delimited(dict(zip(["kind", "y"], zip(*many, strict=True), strict=True)), ","))
    assert stream.columns.sparse and (blocks[0].X.sum(axis=1) == 1).all()


def test_dates_become_days_and_points_on_circles():
    days = ["2024-01-01", "2024-01-08", "2024-07-01", "2025-01-01"]
    stream, blocks = read_all(as_delimited({"day": days, "y": [0, 1, 0, 1]}, ","))
    X = join_blocks(blocks)[0]
    names = [f"day {period} {part}" for period in ("weekday", "year") for part in ("sine", "cosine")]
    assert stream.columns.feature_names == ["day days", *names]
    # Rows 0 and 1 are Mondays, row 3 is a Wednesday.
    assert np.allclose(X[0, 1:3], X[1, 1:3]) and not np.allclose(X[0, 1:3], X[3, 1:3])
    assert np.abs(X[0, 3:5] - X[3, 3:5]).max() < 0.05 and np.abs(X[0, 3:5] - X[2, 3:5]).max() > 1
    numbers = np.array([parse_date(day) for day in days])
    assert np.allclose(X[:, 0], (numbers - numbers.mean()) / numbers.std())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=2, max_size=2), min_size=3, max_size=30),
       st.integers(1, 29))  # fmt: skip
def test_scaling_uses_only_earlier_rows(rows, cut):
    values = np.array(rows)
    first, rest = values[:3], values[3:]
    scaling = RunningScale.of(first)
    scaled = scaling.scale(rest, True)
    for row in range(len(rest)):
        for column in range(2):
            past = values[: 3 + row, column]
            past, x = past[~np.isnan(past)], rest[row, column]
            if np.isnan(x) or len(past) == 0 or past.std() <= 1e-5 * np.abs(past).max():
                continue  # a missing value, no earlier value, or a deviation near the rounding error
            expected = np.clip((x - past.mean()) / past.std(), -10, 10)
            assert scaled[row, column] == pytest.approx(expected, rel=1e-4, abs=1e-4)
    again = RunningScale.of(first)
    parts = [again.scale(rest[:cut], True), again.scale(rest[cut:], True)]
    assert np.concatenate(parts).tobytes() == scaled.tobytes()
    assert all(np.array_equal(getattr(scaling, name), getattr(again, name)) for name in vars(again))


@pytest.mark.parametrize("text, number", [
    ("1", 1.0), (" -2.50 ", -2.5), ("+.5e1", 5.0), ("7.", 7.0), ("TRUE", 1.0), ("false", 0.0), ("1e101", None),
    ("0x1", None), ("1_0", None), ("inf", None), ("١", None), ("1,5", None), ("", math.nan), (" NA ", math.nan),
    ("None", math.nan),
])  # fmt: skip
def test_texts_that_are_parsed_as_numbers(text, number):
    parsed = parse_number(text)
    assert parsed == number or (parsed is not None and math.isnan(parsed) and math.isnan(number))


def test_texts_that_are_parsed_as_integers_tasks_and_dates():
    assert [parse_integer(t) for t in ("+1", "-1.0", "0", "1.5", "true", "", "x")] == [1, -1, 0, None, None, None, None]
    assert [parse_task(t) for t in ("7", "-7", "07", "7.0", "ann", "0", "-0")] == [7, -7, "07", "7.0", "ann", 0, "-0"]
    assert parse_date("1970-01-02") == 1.0 and parse_date("1970-01-01T12:00+12:00") == 0.0
    assert [parse_date(t) for t in ("2024-02-30", "2024", "today", "20240101", "2024-01-01T99:00")] == [None] * 5


def test_records_are_encoded_as_rows_are():
    table = {"user": ["ann", "7"] * 5, "size": [*range(9), None], "day": ["2024-01-01"] * 10, "y": ["p", "q"] * 5}
    stream, blocks = read_all(as_delimited(table, ","))
    records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    block = stream.columns.block(records, labelled=True)
    X, y, tasks = join_blocks(blocks)
    assert block.X.tobytes() == X.tobytes() and block.y.tolist() == y
    assert block.tasks.tolist() == tasks == ["ann", 7] * 5
    assert stream.columns.encode([{}]).shape == (1, stream.columns.n_features)
    before = stream.columns.saved().arrays["count"].tolist()
    with pytest.raises(InputError, match=r"record 1: column 'size' should be a number"):
        stream.columns.encode([{"size": 1}, {"size": "big"}], learn=True)
    with pytest.raises(InputError, match="record 0: column 'user' should name the task but is empty"):
        stream.columns.block([{"size": 1}])
    assert stream.columns.saved().arrays["count"].tolist() == before
    for wrong in (7, [1], {"size": [1], "day": []}):
        with pytest.raises(InputError, match="records must be"):
            stream.columns.encode(wrong)


@pytest.mark.parametrize("name", ["size", "it's", 'so "big"', "back\\slash", 'it\'s "so"'])
def test_errors_about_numbers_have_their_remedies_whatever_the_name_of_the_column(name):
    values = {name: [*range(5000), "tall", 1], "y": [0, 1] * 2501}
    table = as_delimited(values, ",")
    with pytest.raises(InputError, match="line 5002: ") as error:
        read_all(table)
    remedies = str(error.value).partition("Skip such lines")[2]
    # The remedies are arguments of `io.read`, as one would write them in a program.
    arguments = dict(re.findall(r"(na_values|categorical)=(\[\".*?\"\])", remedies))
    assert {key: ast.literal_eval(value) for key, value in arguments.items()} == {
        "na_values": ["tall"], "categorical": [name]
    }  # fmt: skip
    stream, _ = read_all(table, on_error="skip")
    with pytest.raises(InputError, match="got 'tall'"):
        stream.columns.encode([{name: "tall"}])


def test_data_frames_are_encoded_as_rows_are():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    stream, blocks = read_all(b"size,kind,y\n1,a,0\n2,b,1\n3,a,0\n")
    frame = pandas.DataFrame({"kind": ["a", "b", "a"], "size": [1, 2, 3], "more": [0, 0, 0]})
    for any_frame in (frame, polars.from_pandas(frame)):
        assert stream.columns.encode(any_frame).tobytes() == join_blocks(blocks)[0].tobytes()


def test_memory_of_columns_is_fixed_by_the_first_rows():
    words = ["short", "x" * 201]
    table = {"long": [words[i % 2] for i in range(200)], "kind": ["ab"[i % 2] for i in range(200)], "y": [0, 1] * 100}
    stream, _ = read_all(as_delimited(table, ","))
    assert [column.values for column in stream.columns.plan.columns] == [None, ["a", "b"]]
    before = stream.columns.memory_bytes
    assert 200 < before < 4000
    stream.columns.encode([{"long": f"another {i}", "kind": f"new {i}"} for i in range(1000)], learn=True)
    assert stream.columns.memory_bytes == before
    several = {f"number {i}": [1.5, 2.5] for i in range(100)} | {"y": [0, 1]}
    assert read_all(as_delimited(several, ","))[0].columns.memory_bytes > 100 * (4 * 8 + 50)


def test_a_record_with_every_column_of_the_file_gives_no_warning():
    table = {"size": [n % 7 for n in range(40)], "kind": [f"k{n % 3}" for n in range(40)], "user": ["u1", "u2"] * 20,
             "score": [n / 10 for n in range(40)], "label": ["ham", "spam"] * 20}  # fmt: skip
    stream, _ = read_all(as_delimited(table, ","), task="user", offset="score")
    record = {name: values[0] for name, values in table.items()}
    assert stream.columns.doubt(record) is None
    assert "['colour']" in str(stream.columns.doubt({**record, "colour": "red"}))
