"""Fixtures of the tests of Budgetron."""

from __future__ import annotations

import pytest
from small_budgetrons import GRAPHS, learn_rows, small_settings, small_stream


@pytest.fixture
def make_settings():
    return small_settings


@pytest.fixture
def stream():
    return small_stream


@pytest.fixture
def learn():
    return learn_rows


@pytest.fixture
def all_graphs():
    return GRAPHS
