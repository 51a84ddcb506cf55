"""The Python client of `budgetron serve`: `Client`, and `AsyncClient` for event loops.

    client = budgetron.Client("http://127.0.0.1:8000")
    client.learn([0.2, 1.5], "spam", task="ann")
    client.predict([0.3, 1.4], task="ann").label

The clients retry a request if its response is lost. No retry learns a label twice: `learn` and `learn_many` send an
idempotency key, `feedback` names the prediction, and `correct` names the log record. The package needs the extra
`client` (httpx). It must not import the service.
"""

from __future__ import annotations

from budgetron.client.asynchronous import AsyncClient
from budgetron.client.responses import Answered, Prediction, ServiceError, ServiceFailed, ServiceRefused, Unreachable
from budgetron.client.synchronous import Client

__all__ = [
    "Answered",
    "AsyncClient",
    "Client",
    "Prediction",
    "ServiceError",
    "ServiceFailed",
    "ServiceRefused",
    "Unreachable",
]
