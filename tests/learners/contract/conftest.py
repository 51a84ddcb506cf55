"""Fixtures of the tests of the contract that every learner keeps."""

from __future__ import annotations

import pytest
from contract_streams import X, made


@pytest.fixture
def storing_learner(learner):
    """A learner that stores examples."""
    if made(learner).partial_fit(X[:2], [0, 1]).capacity_ == 0:
        pytest.skip("this learner stores no examples")
    return learner
