"""Run a rule over a fixed stream. The expected results (test vectors) are from independent implementations."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.records import Outcome
from budgetron.engine.settings import make_settings

PROBE = np.array([[0.3, -0.2]])


class Run:
    """An engine after the stream: t = 1 … 60, x_t = (cos t, sin 2t), y_t = +1 iff sin 3t + 0.3 cos 7t > 0."""

    def __init__(self, kind, rule, capacity, **parameters):
        settings = make_settings(rule=rule, kernel=kernels.Gaussian(gamma=0.5), graph=graphs.disconnected(),
                                 n_features=2, capacity=capacity, **parameters)  # fmt: skip
        self.engine = kind(settings)
        t = np.arange(1, 61)
        codes = (np.sin(3 * t) + 0.3 * np.cos(7 * t) > 0).astype(np.int32)
        assert codes.sum() == 30
        X, zeros = np.column_stack([np.cos(t), np.sin(2 * t)]), np.zeros(60, dtype=np.int64)
        self.margins, self.flags = self.engine.learn(X, codes, zeros, zeros)
        self.is_mistake = (2 * codes - 1) * self.margins <= 0
        assert self.engine.n_mistakes == self.is_mistake.sum()

    @property
    def mistakes(self):
        return self.engine.n_mistakes

    @property
    def stored(self):
        return self.engine.n_stored

    @property
    def probe(self):
        zero = np.zeros(1, dtype=np.int64)
        return round(float(self.engine.margins(PROBE, zero, zero)[0]), 5)

    @property
    def margin_updates(self):
        """Return the number of updates after correct predictions."""
        return int(((self.flags & Outcome.UPDATED) > 0)[~self.is_mistake].sum())


@pytest.fixture(params=["numpy", "core"])
def after_stream(request):
    """Return a function that runs a rule over the stream. The test runs once with each engine."""
    if request.param == "core" and not native.available:
        pytest.skip("built without a compiler")
    kind = native.Engine if request.param == "core" else reference.Engine
    return lambda rule, capacity=8, **parameters: Run(kind, rule, capacity, **parameters)
