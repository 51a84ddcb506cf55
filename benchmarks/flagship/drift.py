"""python benchmarks/flagship/drift.py [--quick]

Made streams that stand still, turn at once, or turn slowly; all tasks alike or each its own way. With and without the
restless belief (variances with a floor), against the best possible error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Row, check, compared, quick, save

from budgetron import Budgetron
from budgetron.data import DataSet, synthetic
from budgetron.data.synthetic import Shift
from budgetron.learners.budgetron import DENSE, SPARSE

NOISE = 0.05
SHIFTS = {
    "still": None,
    "abrupt, alike": Shift(angle=120.0, begin=0.5, end=0.5),
    "abrupt, each its own": Shift(angle=120.0, begin=0.5, end=0.5, alike=False),
    "gradual, alike": Shift(angle=180.0, begin=0.0, end=1.0),
    "gradual, each its own": Shift(angle=180.0, begin=0.0, end=1.0, alike=False),
}


def learners(text: bool) -> dict[str, Callable[[int], Any]]:
    calm = [belief for belief in (SPARSE if text else DENSE) if not belief.floor]
    restless = [belief for belief in (SPARSE if text else DENSE) if belief.floor]
    return {
        "auto": lambda _: Budgetron(60),
        "without the restless belief": lambda _: Budgetron(60, beliefs=calm),
        "the restless belief alone": lambda _: Budgetron(60, beliefs=restless),
    }


def made(n: int, form: str, shift: Shift | None) -> Callable[[int], DataSet]:
    d = 2000 if form == "text" else 50
    return lambda seed: (
        synthetic.stream(
            n, d=d, n_tasks=8, relatedness=0.8, noise=NOISE, form=form, shift=shift, seed=seed
        ).dataset
    )


def main() -> None:
    is_quick = quick()
    n, seeds = (5_000, range(1)) if is_quick else (20_000, range(3))
    rows: list[Row] = []
    checks: list[Row] = []
    for form in ("linear", "text"):
        for name, shift in SHIFTS.items():
            new = compared(f"{form}: {name}", learners(form == "text"), made(n, form, shift), seeds)
            best = min(row["error"] for row in new[1:])
            check(checks, f"{form}, {name}: at most 0.5 points behind with or without the restless belief",
                  new[0]["error"] <= best + 0.5, f"{new[0]['error']:.2f} against {best:.2f}")  # fmt: skip
            rows += new
    save("drift", rows, checks, is_quick)


if __name__ == "__main__":
    main()
