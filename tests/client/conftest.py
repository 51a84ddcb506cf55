"""A running service with three models, for the tests of the clients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("httpx", reason="the extra 'client' is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from running import running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    models = ("RandomBudgetPerceptron budget=30 kernel=gaussian:0.5", "flag=Budgetron budget=20",
              "bare=RandomBudgetPerceptron budget=30 kernel=gaussian:0.5")  # fmt: skip
    with running(tmp_path_factory.mktemp("service"), *models) as service:
        yield service
