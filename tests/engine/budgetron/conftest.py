"""Fixtures of the tests of Budgetron's parts."""

from __future__ import annotations

import pytest
from small_budgetrons import GRAPHS, fed, small_settings, small_stream


@pytest.fixture
def make_settings():
    return small_settings


@pytest.fixture
def stream():
    return small_stream


@pytest.fixture
def learn():
    return fed


@pytest.fixture
def all_graphs():
    return GRAPHS
