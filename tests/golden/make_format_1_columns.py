"""The script that wrote the model file of format 1 with columns, and the record of how the model scores new rows.

    python tests/golden/make_format_1_columns.py

The record also has the encoding of these rows. The script ran once, when columns were new. The model file must never be
written again, because `tests/io` tests that it can still be read.
"""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

from budgetron import Forgetron, io, kernels

FOLDER = Path(__file__).parent
ROWS = [
    {"user": "ann", "size": 3.5, "colour": "red", "seen": "2024-02-28T12:00", "note": "win a prize now", "y": "spam"},
    {"user": "7", "size": None, "colour": "blue", "seen": "2024-02-29T06:30", "note": "see you at lunch", "y": "ham"},
    {"user": "ann", "size": 9, "colour": "red", "seen": None, "note": "a prize for you alone", "y": "spam"},
    {"user": "cid", "size": 1, "colour": "green", "seen": "2024-03-02T18:45", "note": "lunch is at noon", "y": "ham"},
]  # fmt: skip
NEW = [
    {"user": "ann", "size": 4, "colour": "mauve", "seen": "2024-03-03T00:15", "note": "prize, prize", "y": "spam"},
    {"user": "eve", "size": 2.5, "colour": "", "note": "noon?", "y": "ham"},
]


def main() -> None:
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS * 3)
    model = Forgetron(budget=5, kernel=kernels.Gaussian(0.5))
    with io.read(BytesIO(lines), format="ndjson", text=["note"]) as stream:
        for block in stream:
            model.partial_fit(block.X, block.y, tasks=block.tasks)
    io.save_model(FOLDER / "format-1-columns.budgetron", model, stream.columns)
    block = stream.columns.block(NEW, labelled=True, learn=True)
    record = {
        "new": NEW,
        "indptr": block.X.indptr.tolist(), "indices": block.X.indices.tolist(), "data": block.X.data.tolist(),
        "margins": model.predict_then_learn(block.X, block.y, tasks=block.tasks).tolist(),
    }  # fmt: skip
    (FOLDER / "format-1-columns.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
