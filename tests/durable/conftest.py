"""Fixtures of the tests of durable models."""

from __future__ import annotations

import pytest
from host_streams import MODELS


@pytest.fixture(params=MODELS)
def make_model(request):
    """A function that makes a new model; the test runs for every kind of model."""
    return MODELS[request.param]
