"""Projectron and Projectron++ agree with their test vectors, in both engines."""

from __future__ import annotations

import pytest

from budgetron.engine.reference.rules.projectron import BUDGET, NORM, SQUARED

PLUS = {"plus": True}
VECTORS = {
    "Projectron": (None, {"eta": 0.3}, 30, 8, -0.33783, 0),
    "Projectron++": (None, PLUS | {"eta": 0.3, "convention": NORM}, 30, 7, -0.54588, 11),
    "Projectron++, squared": (None, PLUS | {"eta": 0.09, "convention": SQUARED}, 30, 8, -0.64830, 16),
    "Projectron, Lu et al.": (8, {"eta": 0.0, "convention": BUDGET}, 30, 8, -0.36737, 0),
    "Projectron++, Lu et al.": (8, PLUS | {"eta": 0.0, "convention": BUDGET}, 26, 8, -0.66037, 19),
}


@pytest.mark.parametrize("name", VECTORS)
def test_projectrons_agree_with_their_vectors(name, after_stream):
    capacity, parameters, mistakes, stored, probe, margin_updates = VECTORS[name]
    run = after_stream("projectron", capacity, **parameters)
    assert (run.mistakes, run.stored, run.probe, run.margin_updates) == (mistakes, stored, probe, margin_updates)
