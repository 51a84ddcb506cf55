"""Fixtures: a running service with two models, and clients of it, before and after both models have learned."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("httpx", reason="the extra 'client' is not installed")

from running import running

SPAM = {"examples": [{"features": [1.0, 2.0], "label": "spam", "task": "ann"},
                     {"features": [2.0, 1.0], "label": "ham", "task": "bob"}]}  # fmt: skip


MODELS = ("RandomBudgetPerceptron budget=30 kernel=gaussian:0.5", "flag=Budgetron budget=30")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for the tests of a file: two models, and no API keys."""
    with running(tmp_path_factory.mktemp("service"), *MODELS) as service:
        yield service


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


@pytest.fixture
def trained(client):
    """A client of a service whose two models have learned SPAM. Other tests of the file may have added examples."""
    return _after_learning_spam(client)


@pytest.fixture
def trained_alone(tmp_path):
    """A client of a new service for one test, whose two models have learned SPAM and nothing else."""
    with running(tmp_path, *MODELS) as service, service.client() as client:
        yield _after_learning_spam(client)


def _after_learning_spam(client):
    for path in ("/v1/learn", "/v1/models/flag/learn"):
        answer = client.post(path, json={**SPAM, "key": "the first two"})
        assert answer.status_code == 200, answer.text
    return client
