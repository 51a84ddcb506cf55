"""Talking to `budgetron serve` from Python: `Client`, and `AsyncClient` for event loops.

    client = budgetron.Client("http://127.0.0.1:8000")
    client.learn([0.2, 1.5], "spam", task="ann")
    client.predict([0.3, 1.4], task="ann").label

Every label is sent under a key of its own, so that what is sent again after a lost answer is not learned twice.
"""

from __future__ import annotations

from budgetron.client.answers import Answered, Prediction, ServiceError, ServiceFailed, ServiceRefused, Unreachable
from budgetron.client.asynchronous import AsyncClient
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
