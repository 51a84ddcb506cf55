"""Models with the columns of their files are saved, loaded, and continued bit for bit."""

from __future__ import annotations

import copy
import json
import pickle
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from streaming import as_delimited, join_blocks, read_all, same_rows

import budgetron
from budgetron import RandomBudgetPerceptron, io, kernels
from budgetron.errors import InputError


def table(n, seed=0):
    """A table of n random rows, by column."""
    rng = np.random.default_rng(seed)
    sizes = [None if rng.random() < 0.1 else float(size) for size in rng.normal(5, 3, size=n).round(2)]
    return {
        "user": [f"user {i}" for i in rng.integers(5, size=n)],
        "size": sizes,
        "colour": rng.choice(["red", "blue", "green"], size=n).tolist(),
        "seen": [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(n)],
        "label": ["spam" if (size or 0) > 5 else "ham" for size in sizes],
    }


CONTENT = as_delimited(table(6000), ",")
HEAD, *LINES = CONTENT.splitlines(keepends=True)


def learn(content, model, **more):
    """Let a model learn a file. Returns its margins and the columns."""
    with io.read(BytesIO(content), **more) as stream:
        margins = [model.predict_then_learn(b.X, b.y, tasks=b.tasks, classes=["ham", "spam"]) for b in stream]
    return np.concatenate(margins), stream.columns


def new_model():
    return RandomBudgetPerceptron(budget=20, kernel=kernels.Gaussian(0.5), random_state=0)


@pytest.mark.parametrize("through", ["file", "save of the loaded", "pickle", "deepcopy"])
@pytest.mark.parametrize("text", [(), ("colour",)])
def test_a_stopped_saved_and_continued_run_equals_one_run(through, text, tmp_path):
    whole, _ = learn(CONTENT, new_model(), text=text)
    model = new_model()
    first, columns = learn(HEAD + b"".join(LINES[:5000]), model, text=text)
    io.save_model(tmp_path / "m", model, columns)
    if through == "file":
        model, columns = io.load_model(tmp_path / "m")
    elif through == "save of the loaded":
        budgetron.load(tmp_path / "m").save(tmp_path / "again")  # `load` and `save` keep the columns
        assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
        model, columns = io.load_model(tmp_path / "again")
    else:
        model = pickle.loads(pickle.dumps(model)) if through == "pickle" else copy.deepcopy(model)
        columns = io.columns_of(model)
    rest, columns = learn(HEAD + b"".join(LINES[5000:]), model, columns=columns)
    assert np.concatenate([first, rest]).tobytes() == whole.tobytes()
    assert columns is io.columns_of(model)


def test_a_model_saved_from_python_has_no_columns(tmp_path):
    model = new_model().partial_fit([[1.0], [2.0]], [0, 1])
    model.save(tmp_path / "m")
    assert io.load_model(tmp_path / "m")[1] is None and io.columns_of(model) is None


def test_fit_forgets_the_columns(tmp_path):
    model = new_model()
    _, columns = learn(CONTENT, model)
    io.save_model(tmp_path / "m", model, columns)
    model.fit([[1.0], [2.0]], [0, 1])
    assert io.columns_of(model) is None
    model.save(tmp_path / "m")  # and the file has none either
    assert io.load_model(tmp_path / "m")[1] is None


def test_columns_of_another_file_are_rejected(tmp_path):
    model = new_model()
    _, columns = learn(CONTENT, model)
    io.save_model(tmp_path / "m", model, columns)
    before = (tmp_path / "m").read_bytes()
    other = read_all(b"a,label\n1,0\n2,1\n")[0].columns
    with pytest.raises(InputError, match="columns of X in all"):
        io.save_model(tmp_path / "m", model, other)
    assert io.columns_of(model) is columns and (tmp_path / "m").read_bytes() == before
    with pytest.raises(InputError, match="columns must be the columns of a stream"):
        io.save_model(tmp_path / "m", model, None)


def test_a_saved_model_reads_other_files(tmp_path):
    model = new_model()
    _, columns = learn(CONTENT, model)
    io.save_model(tmp_path / "m", model, columns)
    model, columns = io.load_model(tmp_path / "m")
    new = table(50, seed=1)
    del new["label"]
    order = ["more", "seen", "colour", "size", "user"]  # another order, another column, no label
    csv = as_delimited({name: new.get(name, ["?"] * 50) for name in order}, ";")
    stream, blocks = read_all(csv, columns=columns, labelled=False)
    X, y, tasks = join_blocks(blocks)
    assert y is None and tasks == new["user"] and X.tobytes() == columns.encode(new).tobytes()
    assert len(model.predict(X, tasks=tasks)) == 50
    rows = [dict(zip(new, row, strict=True)) for row in zip(*new.values(), strict=True)]
    block = columns.block(rows)
    assert block.X.tobytes() == X.tobytes() and block.tasks.tolist() == tasks and stream.columns is columns
    state = [array.tolist() for array in columns.saved().arrays.values()]
    saved = io.load_model(tmp_path / "m")[1].saved().arrays
    assert [array.tolist() for array in saved.values()] == state  # predictions do not change the columns
    with pytest.raises(InputError, match=r"lacks columns that the model learned from: \['seen'"):
        read_all(b"colour,size,user\nred,1,ann\n", columns=columns, labelled=False)
    with pytest.raises(InputError, match=r"learned from: \['label'\]"):
        read_all(csv, columns=columns)


def test_records_are_encoded_for_prediction_as_for_learning():
    """A record that is encoded for a prediction equals the row as it is encoded for learning at that moment."""
    with io.read(BytesIO(CONTENT), block_rows=1) as stream:
        before = copy.deepcopy(stream.columns)
        for number, block in enumerate(stream):
            if number in (3, 4200):  # among the first rows, from which the scales are estimated, and after them
                record = {name: values[number] for name, values in table(6000).items()}
                assert before.encode([record]).tobytes() == block.X.tobytes()
            if number in (2, 4199):
                before = copy.deepcopy(stream.columns)


def test_a_golden_file_with_columns_is_read_and_continued():
    golden = Path(__file__).parents[1] / "golden"
    record = json.loads((golden / "format-1-columns.json").read_text(encoding="utf-8"))
    model, columns = io.load_model(golden / "format-1-columns.budgetron")
    block = columns.block(record["new"], labelled=True, learn=True)
    assert block.X.indices.tolist() == record["indices"] and block.X.indptr.tolist() == record["indptr"]
    assert np.allclose(block.X.data, record["data"], rtol=1e-12)
    margins = model.predict_then_learn(block.X, block.y, tasks=block.tasks)
    assert np.allclose(margins, record["margins"], rtol=1e-9, atol=1e-12)


def test_equal_files_give_equal_columns():
    a, b = read_all(CONTENT), read_all(CONTENT)
    assert a[0].columns == b[0].columns and same_rows(a[1], b[1])
    assert a[0].columns != read_all(HEAD + b"".join(LINES[:900]))[0].columns
