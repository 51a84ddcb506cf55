"""Should the scales of columns change after the first rows? Compare the errors of three ways of scaling on real files.

    python benchmarks/streams/scales.py [--rows N]

Each data set is written as CSV, as stored and shuffled, and learned by a Forgetron of budget 200 through
`budgetron.io`: with running scales, and with the scales of the first 4,096 rows. For comparison, the Forgetron also
learns the same rows with the scales of the whole file, which an online learner cannot know.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import Forgetron, data, io


def error(path: Path, learn: bool) -> float:
    """Percent wrong in one pass over the file; with `learn`, every row updates the scales."""
    model, wrong = Forgetron(budget=200), 0
    with io.read(path, learn=learn) as stream:
        for block in stream:
            margins = model.predict_then_learn(block.X, block.y, tasks=block.tasks, classes=stream.classes)
            wrong += int(((margins > 0) != (block.y == stream.classes[1])).sum())
    return 100 * wrong / stream.n_rows


def error_with_final_scales(X: Any, y: Any, tasks: Any) -> float:
    """Percent wrong if columns are scaled by all rows, whose scales an online learner cannot know."""
    margins = Forgetron(budget=200).predict_then_learn(data.standardized(X), y, tasks=tasks)
    return 100 * float(((margins > 0) != (y == np.unique(y)[1])).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    max_rows = parser.parse_args().rows
    print("file                    rows  running  frozen  whole file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.csv"
        for name in ("exam", "chem97", "flights"):
            for order in ("as stored", "shuffled"):
                loaded = data.load(name)
                examples = loaded.shuffled(seed=0) if order == "shuffled" else loaded
                examples = examples.take(max_rows)
                X, y, tasks = np.asarray(examples.X), np.asarray(examples.y), examples.tasks
                lines = [",".join([*(f"x{i}" for i in range(X.shape[1])), "task", "label"])]
                for x, label, task in zip(X, y, tasks, strict=True):
                    lines.append(",".join([*map(repr, x.tolist()), str(task), str(int(label))]))
                path.write_text("\n".join(lines), encoding="utf-8")
                running, frozen = error(path, learn=True), error(path, learn=False)
                whole = error_with_final_scales(X, y, tasks)
                print(f"{name:8} {order:10} {len(X):8,} {running:7.1f} {frozen:7.1f} {whole:11.1f}", flush=True)


if __name__ == "__main__":
    main()
