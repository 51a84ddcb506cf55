"""One pass of a Budgetron over a stream: predict, then learn.

`bench.py` imports this file. It also runs it as a script, with the Python of this version or of version 0.1:

    PYTHON one_pass.py STREAM.npz BUDGET        prints the metrics (see `metrics_of`), "seconds" and "bytes" as JSON

So the file uses only functions that both versions have.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax

BLOCK = 1000


def learn_stream(model, X, y, tasks, classes):
    """Predict, then learn every row. Returns the margins before learning, and the seconds."""
    parts, begin = [], time.perf_counter()
    for start in range(0, len(y), BLOCK):
        rows = slice(start, start + BLOCK)
        block_tasks = None if tasks is None else tasks[rows]
        parts.append(model.predict_then_learn(X[rows], y[rows], tasks=block_tasks, classes=classes))
    return np.concatenate(parts), time.perf_counter() - begin


def metrics_of(margins, y):
    """Error %, log loss, calibration error (ECE, ten equal bins), and the ECE on labels drawn from the predictions.

    The last one, a mean over 200 draws, is the ECE to expect of a perfectly calibrated model. It is not 0, because
    samples are finite.
    """
    p = np.column_stack([expit(-margins), expit(margins)]) if margins.ndim == 1 else softmax(margins, axis=1)
    metrics = {
        "error": 100 * float((p.argmax(axis=1) != y).mean())
        if margins.ndim > 1
        else 100 * float(((margins > 0) != y).mean())
    }
    right = np.maximum(p[np.arange(len(y)), y], 1e-15)
    metrics["log_loss"] = float(-np.log(right).mean())
    # The probability of the second class, or of the predicted class if there are more than two classes.
    predicted = p[:, 1] if p.shape[1] == 2 else p.max(axis=1)
    hit = (y == 1) if p.shape[1] == 2 else p.argmax(axis=1) == y
    metrics["ece"] = ece(predicted, hit)
    rng = np.random.default_rng(0)
    metrics["ece_drawn"] = float(np.mean([ece(predicted, rng.random(len(predicted)) < predicted) for _ in range(200)]))
    return metrics


def ece(p, hit):
    """The expected calibration error: the mean distance of probabilities from observed frequencies, in ten bins."""
    bins = np.minimum((10 * p).astype(int), 9)
    gaps = np.bincount(bins, weights=hit, minlength=10) - np.bincount(bins, weights=p, minlength=10)
    return float(np.abs(gaps).sum() / len(p))


def budget_from(text):
    return int(text) if text.isdecimal() else None if text == "none" else text


def save_stream(path, X, y, tasks):
    arrays = {"y": y} | ({} if tasks is None else {"tasks": tasks})
    if sparse.issparse(X):
        X = X.tocsr()
        arrays |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    else:
        arrays["X"] = X
    np.savez(path, **arrays)


def main():
    from budgetron import Budgetron

    with np.load(sys.argv[1]) as file:
        y, tasks = file["y"], file.get("tasks")
        X = (
            file["X"]
            if "X" in file
            else sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), file["shape"])
        )
    model = Budgetron(*([] if sys.argv[2] == "default" else [budget_from(sys.argv[2])]))
    margins, seconds = learn_stream(model, X, y, tasks, list(range(int(y.max()) + 1)))
    print(json.dumps(metrics_of(margins, y) | {"seconds": seconds, "bytes": int(model.memory_bytes_)}))


if __name__ == "__main__":
    main()
