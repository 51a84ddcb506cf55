"""Files of every format can be read, and their models continue like new models that learned the same stream.

Files of the learner `Budgetron` of version 0.1 are an exception: they are rejected with a remedy.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron.errors import ModelFileError
from budgetron.persist import FORMAT

GOLDEN = Path(__file__).parents[1] / "golden"
RECORD = json.loads((GOLDEN / "format-1.json").read_text(encoding="utf-8"))
X, Y, TASKS, LEARNED = np.array(RECORD["X"]), np.array(RECORD["y"]), RECORD["tasks"], RECORD["learned"]


def new_models():
    """The models of `make_format_1`, before they learn."""
    spec = importlib.util.spec_from_file_location("make_format_1", GOLDEN / "make_format_1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.models()


def test_files_of_every_format_are_committed():
    assert {int(path.name.split("-")[1]) for path in GOLDEN.glob("format-*.budgetron")} == set(range(1, FORMAT + 1))
    assert len(FIRST_GENERATION) == 2


NAMES = [path.stem for path in GOLDEN.glob("format-*.budgetron") if "columns" not in path.stem]
FILES = [name.split("-", 2)[1:] for name in NAMES if "budgetron" not in name]
FIRST_GENERATION = [name for name in NAMES if "budgetron" in name]


@pytest.mark.parametrize("engine", [None, "numpy"])
@pytest.mark.parametrize("number, name", sorted(FILES))
def test_files_of_every_format_are_read_and_continue(number, name, engine):
    model = budgetron.load(GOLDEN / f"format-{number}-{name}.budgetron", engine=engine)
    fresh, is_sparse = new_models()[name]
    assert type(model) is type(fresh) and model.n_seen_ == LEARNED
    rows = sparse.csr_matrix(X) if is_sparse else X
    new = (rows[LEARNED:], Y[LEARNED:], TASKS[LEARNED:])
    margins = model.predict_then_learn(*new[:2], tasks=new[2])
    assert np.allclose(margins, RECORD["margins"][name], rtol=1e-9, atol=1e-9)
    fresh.set_params(kernel=model.kernel_)  # γ in a file of format 1 is the estimate of an earlier version
    fresh.partial_fit(rows[:LEARNED], Y[:LEARNED], tasks=TASKS[:LEARNED])
    assert np.allclose(fresh.predict_then_learn(*new[:2], tasks=new[2]), margins, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FIRST_GENERATION)
def test_files_of_the_first_budgetron_are_rejected_with_a_remedy(name):
    with pytest.raises(ModelFileError) as caught:
        budgetron.load(GOLDEN / f"{name}.budgetron")
    message = str(caught.value)
    assert "version 0.1" in message
    assert message.endswith("Train it again; a data directory with a complete log does so automatically.")
    assert "\n" not in message and message.count(". ") == 1
