"""Consumption of a broker's stream: which rejected messages are logged, and what happens after an unexpected error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import event_loops
import pytest

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
        consumed._log_rejected(b"".join(answers), 0)
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


def test_an_invalid_message_is_counted_once_although_every_connection_reads_it(monkeypatch):
    """Messages 1 and 3 are invalid JSON, and the model rejects message 2, so each connection begins with message 1."""
    logged = []

    class Stream:
        def __init__(self, key):
            self.key = key

        async def read(self, first):
            yield [(1, b"{"), (2, b'{"features": [1.0], "label": 1}'), (3, b"}")], 0
            raise OSError("the connection is lost")

        async def close(self): ...

    keys = iter(["mail", "mail", "mail", "mail, created again"])

    async def connect():
        return Stream(next(keys))

    async def reject_all(model, block, key, tally):
        return b"".join([tally.reject(number, InputError("wrong")) for number, _ in block])

    monkeypatch.setattr(consumption, "log", lambda event, **fields: logged.append(fields.get("rejected")))
    monkeypatch.setattr(consumption, "learn_block", reject_all)
    host = SimpleNamespace(end_of_stream=lambda key: 0)
    model = SimpleNamespace(name="default", host=host, hosted=SimpleNamespace(is_fitted=True))
    consumed = Consumption("stream", connect, model, lambda: False)
    for expected in (3, 3, 3, 6):  # the last connection reads another stream
        with pytest.raises(OSError, match="lost"):
            event_loops.run(consumed._read())
        assert consumed.rejected == len([line for line in logged if line]) == expected
