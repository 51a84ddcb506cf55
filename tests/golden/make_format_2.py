"""The script that wrote the model files of format 2 in this folder, from the stream and the models of format 1.

    python tests/golden/make_format_2.py

It ran once, when format 2 was new. The models must continue with the margins that `format-1.json` records.
"""

from __future__ import annotations

import json

import numpy as np
from make_format_1 import FOLDER, models
from scipy import sparse


def main():
    record = json.loads((FOLDER / "format-1.json").read_text(encoding="utf-8"))
    X, y, tasks, n = np.array(record["X"]), record["y"], record["tasks"], record["learned"]
    for name, (model, is_sparse) in models().items():
        rows = sparse.csr_matrix(X) if is_sparse else X
        model.partial_fit(rows[:n], y[:n], tasks=tasks[:n])
        model.save(FOLDER / f"format-2-{name}.budgetron")


if __name__ == "__main__":
    main()
