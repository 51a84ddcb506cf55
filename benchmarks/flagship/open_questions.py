"""python benchmarks/flagship/open_questions.py [--quick]        (needs `pip install numba`)

NOTES' open questions, one switch of the prototype at a time: what the shipped rule does, and what was rejected for it.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from common import STREAMS, Row, averaged, check, quick, save
from prototype import NOTED, SHIPPED, Switches, run
from scipy.special import expit

from budgetron import Belief, Budgetron, data
from budgetron.data import synthetic
from budgetron.kernels import Gaussian

AS_SHIPPED = Switches()
VARIANTS = {
    "as shipped": AS_SHIPPED,
    "N_i a full matrix": replace(AS_SHIPPED, full_own=True),
    "p with √(1 + πV/8)": replace(AS_SHIPPED, probit=True),
    "step without the residual": replace(AS_SHIPPED, residual=False),
    "features as they come": replace(AS_SHIPPED, scaled=False),
    "τ = 0 (no step skipped)": replace(AS_SHIPPED, negligible=0.0),
    "τ = 0.01": replace(AS_SHIPPED, negligible=0.01),
    "own_rank 4": replace(AS_SHIPPED, own_rank=4),
    "own_rank 8": replace(AS_SHIPPED, own_rank=8),
    "η = 0.01": replace(AS_SHIPPED, eta=0.01),
    "no fixed share": replace(AS_SHIPPED, share=0.0),
    "drop below 1e-4 of the best": replace(AS_SHIPPED, share=0.0, drop_below=1e-4),
    "patience 1,000": replace(AS_SHIPPED, patience=1_000),
    "store mistakes alone": replace(AS_SHIPPED, eager=False),
    "evict by U²/P": replace(AS_SHIPPED, spread_score=False),
    "no restless belief": replace(AS_SHIPPED, beliefs=tuple(one for one in SHIPPED if not one[4])),
    "bolder restless belief (10, ×0.1, floor 0.03)": replace(
        AS_SHIPPED, beliefs=tuple((10, 0.1, 0, 0, 0.03) if one[4] else one for one in SHIPPED)
    ),
    "NOTES' eight beliefs": replace(AS_SHIPPED, beliefs=NOTED),
    "NOTES' rule and beliefs": Switches(
        NOTED, eta=0.01, own_rank=8, full_own=True, probit=True, residual=False, scaled=False,
        negligible=0.0, share=0.0, patience=0, drop_below=1e-4,
    ),
}  # fmt: skip


KERNEL_ONLY = ", kernel only"


def streams(n_orders: int) -> dict[str, list[tuple[data.DataSet, int, float]]]:
    """The streams: (rows, B, γ) in each order. Questions about the kernel part show where there is no other."""
    exam = STREAMS[0]
    out = {"Exam": [(exam.ordered(seed), exam.budget(seed), 1 / 12) for seed in range(n_orders)]}
    out["Exam" + KERNEL_ONLY] = out["Exam"]
    made = {"curved" + KERNEL_ONLY: {"form": "gaussian", "d": 3}, "related, d = 50": {"d": 50, "relatedness": 0.9}}
    for name, settings in made.items():
        out[name] = [
            (synthetic.stream(4_000, n_tasks=10, noise=0.05, seed=seed, **settings).dataset, 60, 1 / settings["d"])
            for seed in range(n_orders)
        ]
    return out


def without_linear(switches: Switches) -> Switches:
    return replace(switches, beliefs=tuple(one for one in switches.beliefs if not one[0]))


def figures(dataset: data.DataSet, budget: int, gamma: float, switches: Switches) -> Row:
    begin = time.perf_counter()
    p, skipped = run(dataset.X, dataset.tasks, dataset.y, budget, gamma, switches)
    micros = 1e6 * (time.perf_counter() - begin) / dataset.n
    said = np.clip(np.where(dataset.y == 1, p, 1 - p), 1e-15, 1)
    bins = np.minimum((p * 20).astype(int), 19)
    gaps = np.bincount(bins, p - dataset.y, minlength=20)
    return {"error": 100 * ((p > 0.5) != dataset.y).mean(), "log_loss": -np.log(said).mean(),
            "ece": np.abs(gaps).sum() / dataset.n, "skipped": skipped, "micros": micros}  # fmt: skip


def difference(dataset: data.DataSet, budget: int, gamma: float, switches: Switches) -> float:
    """The largest one between a probability of the prototype and of the product."""
    model = Budgetron(budget, Gaussian(gamma), beliefs=[Belief(*belief) for belief in switches.beliefs])
    margins = model.predict_then_learn(dataset.X, dataset.y, tasks=dataset.tasks)
    p, _ = run(dataset.X, dataset.tasks, dataset.y, budget, gamma, switches)
    return float(np.abs(expit(margins) - p).max())


def main() -> None:
    is_quick = quick()
    rows: list[Row] = []
    checks: list[Row] = []
    for title, orders in streams(1 if is_quick else 3).items():
        as_shipped = without_linear(AS_SHIPPED) if title.endswith(KERNEL_ONLY) else AS_SHIPPED
        apart = difference(*orders[0], as_shipped)
        check(checks, f"{title}: the prototype is the product", apart < 1e-6, f"probabilities {apart:.1e} apart")
        for name, chosen in VARIANTS.items():
            switches = without_linear(chosen) if title.endswith(KERNEL_ONLY) else chosen
            row = {"stream": title, "variant": name} | averaged([figures(*order, switches) for order in orders])
            rows.append(row)
            print(f"{title:20s} {name:46s} error {row['error']:6.2f} ± {row['error_se']:.2f}"
                  f"  log loss {row['log_loss']:.4f}  ECE {row['ece']:.3f}  skipped {row['skipped']:.0%}", flush=True)
    save("open_questions", rows, checks, is_quick)


if __name__ == "__main__":
    main()
