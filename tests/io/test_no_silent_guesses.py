"""Guesses about a file are right or reported: labels, tasks, number formats of other countries, missing values."""

from __future__ import annotations

import logging
import math
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import as_delimited, join_blocks, read_all

from budgetron import Budgetron, io
from budgetron.errors import InputError
from budgetron.io.encoding.number_formats import COMMA, POINT, NumberFormat, infer_formats
from budgetron.io.encoding.task_column import default_task, is_identifier
from budgetron.io.encoding.values import is_numeric_literal, looks_numeric, parse_number


def columns_of(content: bytes | BytesIO, **options) -> io.Columns:
    """The columns that are inferred from a file."""
    source = BytesIO(content) if isinstance(content, bytes) else content
    with io.read(source, **options) as stream:
        return stream.columns


def kinds(columns: io.Columns) -> dict[str, str]:
    return {line.column: line.kind or line.role for line in columns.describe() if line.role in ("feature", "ignored")}


# ---- labels


@pytest.mark.parametrize("lines", [
    b'{"a": 1, "ok": true}\n{"a": 2, "ok": false}\n', b"a,ok\n1,True\n2,False\n", b"a,ok\n1,TRUE\n2,false\n",
])  # fmt: skip
def test_boolean_labels_stay_booleans(lines):
    stream, blocks = read_all(BytesIO(lines))
    assert stream.classes == [False, True] and blocks[0].y.tolist() == [True, False]
    model = Budgetron(class_weight={True: 5}).partial_fit(blocks[0].X, blocks[0].y, classes=stream.classes)
    assert model.predict(blocks[0].X).dtype == bool
    model.partial_fit(blocks[0].X, ["true", "False"])  # the other spelling of the same labels
    again, _ = read_all(BytesIO(b"a,ok\n3,1\n4,true\n"), columns=stream.columns, classes=["true", "false"])
    assert again.n_rows == 2
    with pytest.raises(InputError, match="one of the labels \\[False, True\\] but contains 'yes'"):
        read_all(BytesIO(b"a,ok\n3,yes\n"), columns=stream.columns, classes=stream.classes)


def test_text_labels_that_spell_booleans_accept_booleans():
    model = Budgetron(class_weight={True: 5, "false": 1}).partial_fit([[1.0], [2.0]], ["true", "false"])
    margins = model.predict_then_learn([[1.0], [2.0]], [True, False])
    assert len(margins) == 2 and model.classes_.tolist() == ["false", "true"]
    with pytest.raises(InputError, match="known classes"):
        model.partial_fit([[1.0]], ["yes"])


def test_a_third_class_beside_true_and_false_makes_them_texts():
    content = b"a,ok\n1,true\n2,false\n3,maybe\n"
    stream, blocks = read_all(BytesIO(content), classes=["true", "false", "maybe"])
    assert blocks[0].y.tolist() == ["true", "false", "maybe"] and stream.classes == ["false", "maybe", "true"]
    with pytest.raises(InputError, match="classes must be integers, like the labels of column 'y'; got 'x'"):
        read_all(BytesIO(b"a,y\n1,0\n2,1\n"), classes=["0", "x"])


@pytest.mark.parametrize("rare, is_reported", [("spma", True), ("Spam", True), ("eggs", False), ("spam2", False)])
def test_a_label_that_looks_like_a_typing_error_is_reported(rare, is_reported):
    labels = ["spam", "ham"] * 100 + [rare]
    table = {"a": range(201), "label": labels}
    warning = next(iter(columns_of(as_delimited(table, ",")).warnings()), None)
    assert (warning is not None) == is_reported
    if is_reported:
        assert f"'{rare}' occurs once" in warning and 'classes=["ham", "spam"]' in warning
    assert columns_of(as_delimited(table, ","), classes=["ham", "spam"]).warnings() == []


# ---- tasks


@pytest.mark.parametrize("names, task", [
    (["user_id", "device", "x"], "user_id"), (["device", "user_id"], "user_id"), (["device_id", "device"], "device"),
    (["User ID", "x"], "User ID"), (["customerId"], "customerId"), (["Kunde Nr"], None), (["users", "tasks"], None),
])  # fmt: skip
def test_the_task_column_is_guessed_from_its_name(names, task):
    assert default_task(names) == task


def test_columns_whose_names_denote_identifiers_are_recognised():
    yes = ["Kunde Nr", "order_id", "machineNo", "shop", "account key", "id", "Client"]
    no = ["Größe", "number", "no", "x", "code", "valid", "identity", "", "___"]
    assert [name for name in yes if not is_identifier(name)] == [name for name in no if is_identifier(name)] == []


def test_uncertain_choices_of_the_task_are_reported(caplog):
    n = 200
    table = {"user_id": [i % 40 for i in range(n)], "device": ["a", "b"] * (n // 2), "x": [i % 3 / 7 for i in range(n)],
             "label": [0, 1] * (n // 2)}  # fmt: skip
    with caplog.at_level(logging.INFO, "budgetron.io"):
        columns = columns_of(as_delimited(table, ","))
    assert columns.task == "user_id" and kinds(columns) == {"device": "category", "x": "number"}
    (warning,) = columns.warnings()
    assert (
        "'user_id' is used as the task" in warning and "'device' (2 values)" in warning and 'task="device"' in warning
    )
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    by_device = columns_of(as_delimited(table, ","), task="device")
    assert kinds(by_device) == {"user_id": "ignored", "x": "number"}  # an identifier is never used as a number
    assert "identifiers" in by_device.warnings()[0] and 'categorical=["user_id"]' in by_device.warnings()[0]
    assert columns_of(as_delimited(table, ","), task="user_id").warnings() == []

    other = {"Kunde Nr": table["user_id"], "x": table["x"], "label": table["label"]}
    columns = columns_of(as_delimited(other, ","))
    (warning,) = columns.warnings()
    assert columns.task is None
    assert "'Kunde Nr' (40 values) could be the task" in warning and 'task="Kunde Nr"' in warning
    assert columns_of(as_delimited({"x": table["x"], "label": table["label"]}, ",")).warnings() == []


# ---- numbers and missing values


@pytest.mark.parametrize("text, comma, point", [
    ("1.234,5", 1234.5, None), ("1,234.5", None, 1234.5), ("12,5", 12.5, None), ("12.5", None, 12.5),
    ("1.234", 1234.0, 1.234), ("1,234", 1.234, 1234.0), ("0,125", 0.125, None), ("-1.000.000", -1e6, None),
    ("1 234,5", 1234.5, None), ("1'234.5", None, 1234.5), ("1\u00a0234", 1234.0, 1234.0), (",5", 0.5, None),
    ("7", 7.0, 7.0), ("1.23,4", None, None), ("1,2,3", None, None), ("1e3", 1000.0, 1000.0), ("x", None, None),
    ("1.234 567", None, None), ("", math.nan, math.nan), ("1e200", None, None),
])  # fmt: skip
def test_numbers_are_parsed_with_a_decimal_comma_or_a_decimal_point(text, comma, point):
    for format, expected in ((COMMA, comma), (POINT, point)):
        number = NumberFormat(format).parse(text)
        assert number == expected or (number is not None and math.isnan(number) and math.isnan(expected))


def ten_of_each(*values: str) -> dict[str, int]:
    return dict.fromkeys(values, 10)


@pytest.mark.parametrize("columns, expected", [
    ({"a": ten_of_each("12,5", "3")}, {"a": COMMA}), ({"a": ten_of_each("1,234.5", "3")}, {"a": POINT}),
    ({"a": ten_of_each("1,234", "3")}, {"a": None}),
    ({"a": ten_of_each("1,234", "3"), "b": ten_of_each("0,5")}, {"a": COMMA, "b": COMMA}),
    ({"a": ten_of_each("1,234", "3"), "b": ten_of_each("0.5")}, {"a": POINT}),
    ({"a": ten_of_each("1.234", "3"), "b": ten_of_each("0,5")}, {"a": COMMA, "b": COMMA}),
    ({"a": ten_of_each("1.234", "3.1"), "b": ten_of_each("0,5")}, {"b": COMMA}),
    ({"a": ten_of_each("1.234", "3")}, {}), ({"a": ten_of_each("a, b", "c, d")}, {}),
    ({"a": ten_of_each("1,2,3", "4,5,6")}, {}), ({"a": ten_of_each("12,5", "n.a.", "1.#QNAN")}, {"a": COMMA}),
])  # fmt: skip
def test_the_number_format_is_inferred_from_all_columns(columns, expected):
    assert infer_formats(columns, None, typed=False) == expected


def format_numbers(numbers: list[float], format: str) -> list[str]:
    texts = [f"{number:,.2f}" for number in numbers]
    return texts if format == POINT else [text.translate(str.maketrans(",.", ".,")) for text in texts]


@pytest.mark.parametrize("format", [COMMA, POINT])
def test_a_file_with_another_number_format_gives_the_same_rows(format):
    numbers = np.random.default_rng(0).lognormal(6, 3, 5000).round(2).tolist()
    labels = [int(number > 400) for number in numbers]
    plain, blocks = read_all(as_delimited({"a": numbers, "y": labels}, ";"))
    stream, others = read_all(as_delimited({"a": format_numbers(numbers, format), "y": labels}, ";"))
    assert stream.columns.describe()[-1].note == f"written as {format}" and stream.columns.warnings() == []
    assert join_blocks(blocks)[0].tobytes() == join_blocks(others)[0].tobytes()
    # Records from a program contain floats, whatever the number format of the file.
    records = stream.columns.encode([{"a": 1234.5}, {"a": format_numbers([1234.5], format)[0]}])
    assert records[0].tolist() == records[1].tolist() == plain.columns.encode([{"a": 1234.5}])[0].tolist()
    with pytest.raises(InputError, match=f"column 'a' should be a number such as {format}; got 'many'"):
        stream.columns.encode([{"a": "many"}])


def test_an_ambiguous_number_format_is_reported_with_the_option_that_decides():
    content = b"a;y\n" + b"1,234;0\n2,345;1\n" * 30
    columns = columns_of(content)
    assert kinds(columns) == {"a": "category"} and 'decimal=","' in columns.warnings()[0]
    assert columns_of(content, decimal=",").encode([{"a": 1.234}]).tolist() == columns_of(content, decimal=",").encode(
        [{"a": "1,234"}]).tolist()  # fmt: skip
    assert kinds(columns_of(content, decimal=".")) == {"a": "number"}
    with pytest.raises(InputError, match='decimal must be "\\.", "," or None'):
        columns_of(content, decimal=";")


def test_codes_for_missing_values_are_recognised_or_reported():
    table = {"a": [1.5, "k.A.", 3, "-"] * 30, "day": ["2024-01-01", "0000-00-00"] * 60, "kind": ["x", "unknown"] * 60,
             "b": [1, -999, 2, 3] * 30, "y": [0, 1] * 60}  # fmt: skip
    columns = columns_of(as_delimited(table, ","))
    assert kinds(columns) == {"a": "number", "day": "date", "kind": "category", "b": "number"}
    assert "'-', 'k.A.' count as missing" in columns.describe()[2].note and columns.warnings() == []
    with_codes = columns_of(as_delimited(table, ","), na_values=["-999", "unknown"])
    row = with_codes.encode([{"a": 1, "day": "2024-01-01", "kind": "unknown", "b": -999}])
    assert row.tolist() == with_codes.encode([{"a": 1, "day": "2024-01-01", "kind": "", "b": None}]).tolist()
    assert row.tolist() == with_codes.encode([{"a": 1, "day": "2024-01-01", "b": "-999"}]).tolist()
    stream, _ = read_all(as_delimited(table | {"b": ["often", 1, 2, 3] * 30}, ","))
    assert "'often' is not" in stream.columns.warnings()[0] and 'na_values=["often"]' in stream.columns.warnings()[0]


def test_dates_in_another_order_are_reported():
    days = [f"{1 + i % 28:02}.02.2024" for i in range(100)]
    (warning,) = columns_of(as_delimited({"day": days, "y": [0, 1] * 50}, ",")).warnings()
    assert "looks like a date" in warning and "2024-02-29" in warning


# ---- names, weights and encodings


def test_a_repeated_column_is_reported():
    (warning,) = columns_of(b"x,z,x,y\n1,2,3,0\n2,1,3,1\n").warnings()
    assert "Two columns are called 'x'" in warning and "has other values" in warning and 'drop=["x.2"]' in warning
    assert "has the same values" in columns_of(b"x,x,y\n1,1,0\n2,2,1\n").warnings()[0]
    assert columns_of(b"x,x,y\n1,1,0\n2,2,1\n", drop=["x.2"]).warnings() == []


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_weight_column_is_read_and_invalid_weights_are_reported(form):
    if form == "csv":
        content = b"x,w,y\n" + b"1,2,0\n2,0.5,1\n" * 30 + b"1,-1,0\n2,,1\n"
    else:
        content = b'{"x": 1, "w": 2, "y": 0}\n{"x": 2, "w": 0.5, "y": 1}\n' * 30
        content += b'{"x": 1, "w": -1, "y": 0}\n{"x": 2, "y": 1}\n'
    stream, blocks = read_all(BytesIO(content), weight="w", on_error="skip", format=form)
    assert blocks[0].weights.tolist() == [2.0, 0.5] * 30 and blocks[0].X.shape == (60, 1) and stream.n_bad == 2
    assert "column 'w' should be a weight" in stream.bad[0].reason and stream.columns.weight == "w"
    again, _ = read_all(BytesIO(b"x\n1\n"), columns=stream.columns, labelled=False)
    assert again.n_rows == 1
    with pytest.raises(InputError, match="label and weight are both"):
        columns_of(content, weight="y", label="y", format=form)
    with pytest.raises(InputError, match="weight: there is no column 'v'"):
        columns_of(content, weight="v", format=form)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_files_in_other_encodings_are_read(encoding):
    text = "größe,y\n" + "süß,0\nöde,1\n" * 3000
    stream, blocks = read_all(BytesIO(text.encode(encoding)), encoding=encoding)
    assert stream.columns.names == ["größe"] and stream.columns.plan.columns[0].values == ["süß", "öde"]
    assert len(join_blocks(blocks)[0]) == 6000


def test_text_that_is_not_utf_8_gets_a_hint():
    with pytest.raises(InputError, match=r'as Windows-1252 it contains \'größe,y\'; .* encoding="cp1252"'):
        columns_of("größe,y\n1,0\n".encode("cp1252"))
    with pytest.raises(InputError, match="is not encoded in utf-16"):
        read_all(BytesIO("größe,y\n1,0\n".encode() + b"\xd8\x00\xd8\x00\xd8"), encoding="utf-16")
    with pytest.raises(InputError, match="is not encoded in utf-7: surrogates not allowed"):
        read_all(b"a,y\n+2D0-,0\n", encoding="utf-7")
    with pytest.raises(InputError, match="encoding must be the name of an encoding"):
        columns_of(b"a,y\n1,0\n", encoding="klingon")


def test_what_was_inferred_is_saved(tmp_path):
    table = {"a": ["1.234,5", "k.A.", "12,5"] * 40, "w": [1, 2, 3] * 40, "ok": ["true", "false", "true"] * 40}
    stream, blocks = read_all(as_delimited(table, ";"), weight="w")
    model = Budgetron(budget=10)
    for block in blocks:
        model.partial_fit(block.X, block.y, classes=stream.classes, sample_weight=block.weights)
    io.save_model(tmp_path / "m", model, stream.columns)
    again, columns = io.load_model(tmp_path / "m")
    assert columns == stream.columns and columns.weight == "w" and again.classes_.tolist() == [False, True]
    assert columns.encode([{"a": "1.234,5"}]).tolist() == stream.columns.encode([{"a": 1234.5}]).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("0123456789.,-+e 'k\n\u00a0", max_size=8) | st.sampled_from(["12,5", "1.234,5", "NA"]),
                max_size=12), st.sampled_from(["", COMMA, POINT]))  # fmt: skip
def test_numbers_are_parsed_together_as_one_by_one(texts, format):
    number_format = NumberFormat(format, ("k", "-99"))
    one_by_one = [math.inf if (value := number_format.parse(text)) is None else value for text in texts]
    assert np.array_equal(number_format.parse_all(texts), np.array(one_by_one, dtype=float), equal_nan=True)


@pytest.mark.parametrize("text, expected", [
    ("1.5", True), (" -2e3\t", True), ("1e200", True), ("NA", True), ("", True), (" TRUE ", True), ("-inf", True),
    ("+Infinity", True), ("nan", True), ("1_000", False), ("1,5", False), ("w12", False), ("true story", False),
    ("2024-02-29", False), ("\u00a01", False), ("++1", False),
])  # fmt: skip
def test_which_texts_are_meant_as_numbers(text, expected):
    assert looks_numeric(text) is expected
    if parse_number(text) is not None or is_numeric_literal(text):
        assert expected
