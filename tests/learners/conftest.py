"""Fixtures of the tests of learners."""

from __future__ import annotations

import pytest
import sklearn


@pytest.fixture
def routing():
    """Enable scikit-learn's metadata routing, which passes `tasks` on to the learners."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield
