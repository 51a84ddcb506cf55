"""Consumption of a broker's stream: which rejected messages are logged, and what happens after an unexpected error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import event_loops

from budgetron.errors import InputError
from budgetron.service.consuming import consumption
from budgetron.service.consuming.consumption import Consumption
from budgetron.service.handlers.ndjson import Tally

MODEL = SimpleNamespace(name="default", host=SimpleNamespace(position=0))


def test_the_first_rejected_messages_are_logged(monkeypatch):
    """Only the first `_MAX_LOGGED` are logged, even if more are rejected at once."""
    logged = []
    monkeypatch.setattr(consumption, "log", lambda event, **fields: logged.append(fields["rejected"]))
    consumed, tally = Consumption("stream", None, MODEL, lambda: False), Tally()
    for first in (1, 31):
        answers = [tally.reject(number, InputError("wrong")) for number in range(first, first + 30)]
        consumed._log_rejected(tally, b"".join(answers))
    assert consumed.rejected == 60
    assert len(logged) == consumption._MAX_LOGGED and logged[0].startswith('{"line":1,')


def test_an_unexpected_error_is_logged_and_retried(monkeypatch):
    logged, attempts = [], []
    monkeypatch.setattr(consumption, "log", lambda event, **fields: logged.append(fields["error"]))

    async def connect():
        attempts.append(1)
        raise ZeroDivisionError("in the client of the broker")

    event_loops.run(asyncio.wait_for(Consumption("stream", connect, MODEL, lambda: len(attempts) == 2).run(), 60))
    assert logged == ["ZeroDivisionError('in the client of the broker')"] * 2
