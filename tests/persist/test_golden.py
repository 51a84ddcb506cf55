"""A file of every format number that ever was can be read, and is the model that its stream makes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron.persist import FORMAT

GOLDEN = Path(__file__).parents[1] / "golden"
RECORD = json.loads((GOLDEN / "format-1.json").read_text(encoding="utf-8"))
X, Y, TASKS, LEARNED = np.array(RECORD["X"]), np.array(RECORD["y"]), RECORD["tasks"], RECORD["learned"]


def made():
    spec = importlib.util.spec_from_file_location("make_format_1", GOLDEN / "make_format_1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.models()


def test_every_format_is_here():
    assert {int(path.name.split("-")[1]) for path in GOLDEN.glob("format-*.budgetron")} == set(range(1, FORMAT + 1))


FILES = [path.stem.split("-", 2)[1:] for path in GOLDEN.glob("format-*.budgetron") if "columns" not in path.stem]


@pytest.mark.parametrize("engine", [None, "numpy"])
@pytest.mark.parametrize("number, name", sorted(FILES))
def test_every_format(number, name, engine):
    model = budgetron.load(GOLDEN / f"format-{number}-{name}.budgetron", engine=engine)
    fresh, is_sparse = made()[name]
    assert type(model) is type(fresh) and model.n_seen_ == LEARNED
    rows = sparse.csr_matrix(X) if is_sparse else X
    new = (rows[LEARNED:], Y[LEARNED:], TASKS[LEARNED:])
    margins = model.predict_then_learn(*new[:2], tasks=new[2])
    assert np.allclose(margins, RECORD["margins"][name], rtol=1e-9, atol=1e-9)
    if not name.startswith("flagship"):  # the paper's rules are what they are: the stream makes the model again
        fresh.set_params(kernel=model.kernel_)  # a file of format 1 has a gamma that an earlier version has estimated
        fresh.partial_fit(rows[:LEARNED], Y[:LEARNED], tasks=TASKS[:LEARNED])
        assert np.allclose(fresh.predict_then_learn(*new[:2], tasks=new[2]), margins, rtol=1e-9, atol=1e-9)
