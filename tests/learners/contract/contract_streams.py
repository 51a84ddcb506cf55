"""A short stream of four tasks, and small models of any learner, for the tests of the contract."""

from __future__ import annotations

import numpy as np

from budgetron import kernels
from budgetron.checks.case import require_same, state_of

RNG = np.random.default_rng(8)
N = 90
X = np.round(64 * RNG.normal(size=(N, 4))) / 64
Y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=N) > 0).astype(int)
TASKS = RNG.integers(4, size=N).tolist()
KERNEL = kernels.Gaussian(0.4)


def made(learner, **parameters):
    """Return a small new model. Parameters that the learner does not have are ignored."""
    chosen = {"budget": 12, "kernel": KERNEL} | parameters
    return learner(**{name: chosen[name] for name in chosen if name in learner().get_params()})


def assert_same_model(a, b):
    """Check that two models are equal bit for bit."""
    require_same(state_of(a), state_of(b), "two models")
