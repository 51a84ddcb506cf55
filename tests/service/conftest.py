from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("httpx", reason="the extra 'client' is not installed")

from running import running

SPAM = {"examples": [{"features": [1.0, 2.0], "label": "spam", "task": "ann"},
                     {"features": [2.0, 1.0], "label": "ham", "task": "bob"}]}  # fmt: skip


MODELS = ("RandomBudgetPerceptron budget=30 kernel=gaussian:0.5", "flag=Budgetron budget=20")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for the tests of a file: two models, no keys."""
    with running(tmp_path_factory.mktemp("service"), *MODELS) as service:
        yield service


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


@pytest.fixture
def trained(client):
    """A client of a service whose models have learned spam from ham, and what other tests of the file taught them."""
    return _taught(client)


@pytest.fixture
def trained_alone(tmp_path):
    """A client of a service of its own, whose models have learned spam from ham and nothing else."""
    with running(tmp_path, *MODELS) as service, service.client() as client:
        yield _taught(client)


def _taught(client):
    for path in ("/v1/learn", "/v1/models/flag/learn"):
        answer = client.post(path, json={**SPAM, "key": "the first two"})
        assert answer.status_code == 200, answer.text
    return client
