"""BudgetSgd agrees with the test vectors of its published presets."""

from __future__ import annotations

import pytest

from budgetron.engine.reference.rules.budget_sgd import merging
from budgetron.engine.reference.rules.budget_sgd.merging import merged
from budgetron.engine.reference.rules.budget_sgd.parameters import Maintenance, Step

PEGASOS = {"step": Step.PEGASOS, "regularization": 0.05}
PASSIVE = {"step": Step.PASSIVE_AGGRESSIVE, "rate": 1.0, "maintenance": Maintenance.REPLACE}
VECTORS = {
    "BPegasos, removal": (PEGASOS | {"maintenance": Maintenance.REMOVE}, 37, 8, 0.03562),
    "BPegasos, projection of the smallest": (PEGASOS | {"maintenance": Maintenance.PROJECT_SMALLEST}, 30, 8, 0.34261),
    "BPegasos, projection of the best": (PEGASOS | {"maintenance": Maintenance.PROJECT}, 25, 8, -0.04797),
    "BPA-S": (PASSIVE, 34, 8, -0.37873),
    "BPA-S that never skips": (PASSIVE | {"skip": False}, 34, 8, 0.05395),
    "NOGD": ({"step": Step.CONSTANT, "rate": 0.5, "maintenance": Maintenance.NYSTROM, "rank": 0.5}, 29, 8, -0.21260),
    "Ahpatron": (
        {"step": Step.CONSTANT, "rate": 0.25, "margin": 0.5, "radius": 0.5, "maintenance": Maintenance.HALVE}, 33, 7,
        0.06733,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_presets_of_budget_sgd_agree_with_their_vectors(name, after_stream):
    parameters, mistakes, stored, probe = VECTORS[name]
    run = after_stream("budget_sgd", **parameters)
    assert (run.mistakes, run.stored, run.probe) == (mistakes, stored, probe)


@pytest.mark.parametrize("after_stream", ["numpy"], indirect=True)
def test_merging_agrees_with_its_vector_up_to_a_tie(after_stream, monkeypatch):
    """In this stream, examples with opposite coefficients ±β are merged, so h and 1 − h have the same loss.

    This package takes the lower h. The code that computed the vector compares the sizes of both coefficients, which
    differ only by rounding. With the same choice, the definition gives the result of the vector.
    """

    def merged_by_size(p, q, s, kappa):
        if s < 0 and p > q:
            h, loss = merged(q, p, s, kappa)
            return 1 - h, loss
        return merged(p, q, s, kappa)

    monkeypatch.setattr(merging, "merged", merged_by_size)
    run = after_stream("budget_sgd", **PEGASOS, maintenance=Maintenance.MERGE)
    assert (run.mistakes, run.stored, run.probe) == (29, 8, 0.00915)


@pytest.mark.parametrize("pair, h, weight, loss", [
    ((0.3, 0.7, 0.5), 0.226901, 0.873705, 0.026640),
    ((-0.2, 0.7, 0.6), -0.168632, 0.590353, 0.013483),
    ((0.4, 0.4, 0.1), 0.202945, 0.456441, 0.143661),
])  # fmt: skip
def test_merged_pairs_agree_with_their_vectors(pair, h, weight, loss):
    a, b, kappa = pair
    best_h, merge_loss = merged(a * a, b * b, a * b, kappa)
    merged_weight = abs(a * kappa ** ((1 - best_h) ** 2) + b * kappa ** (best_h**2))
    assert (round(best_h, 6), round(merged_weight, 6), round(merge_loss, 6)) == (h, weight, loss)
