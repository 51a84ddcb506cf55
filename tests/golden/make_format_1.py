"""The script that wrote model files of format 1 in this folder, and the record of the stream that the models learned.

    python tests/golden/make_format_1.py

It ran once, when format 1 was new. The files must never be written again, because `tests/persist/test_golden.py` tests
that files of this format can still be read. An earlier version of this script also wrote the files
`format-1-budgetron*.budgetron`. They contain a Budgetron of the first generation, which stored examples. The tests
check that these two files are rejected.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

import budgetron
from budgetron import graphs, kernels

FOLDER = Path(__file__).parent
EDGES = [["ann", "bob"], ["bob", "cid"]]


def models():
    """Name → a model that has learned nothing, and whether it gets sparse rows."""
    return {
        "random": (budgetron.RandomBudgetPerceptron(8, kernels.Linear(1.0), random_state=3), True),
        "forgetron": (budgetron.Forgetron(8, kernels.Gaussian(0.5), graphs.disconnected()), False),
        "projectron": (budgetron.BudgetProjectron(8, kernels.Polynomial(2, 1.0), graphs.from_edges(EDGES)), False),
        "shared": (budgetron.SharedProjectron(8, graph=graphs.clusters({"ann": 0, "bob": 0}), eta=0.1), True),
    }  # fmt: skip


def main():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.7), 2) + 0.0
    y = (X[:, 0] > X[:, 1]).astype(int)
    tasks = [["ann", "bob", "cid"][i] for i in rng.integers(3, size=60)]
    record = {"X": X.tolist(), "y": y.tolist(), "tasks": tasks, "learned": 50, "margins": {}}
    for name, (model, is_sparse) in models().items():
        rows = sparse.csr_matrix(X) if is_sparse else X
        model.partial_fit(rows[:50], y[:50], tasks=tasks[:50])
        model.save(FOLDER / f"format-1-{name}.budgetron")
        record["margins"][name] = model.predict_then_learn(rows[50:], y[50:], tasks=tasks[50:]).tolist()
    (FOLDER / "format-1.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
