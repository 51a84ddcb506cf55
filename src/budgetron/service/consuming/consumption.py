"""`Consumption`: a model learns the valid messages of a stream, each once, despite restarts, kills and redelivery.

The position in the stream is not stored by the broker. It is part of the record that the model logs: the idempotency
key names the stream, and each row has the number of its message. So a message is never logged without its position.
After a restart, the service continues with the message after the last one in its own log. A model that is restored from
a backup learns the messages after the backup again, as far as the broker still has them.

Invalid messages are counted and skipped. The first few of each connection are reported in the server log. After a
failure that no message caused, such as a full disk, the service connects again a moment later, and continues at the
position of its log. Invalid messages are not in the log, so those after the last learned message are read again. They
are counted and reported again only after a restart of the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import json

from budgetron.errors import BudgetronError, OperationalError
from budgetron.service.handlers.beginning import Numbered, can_begin
from budgetron.service.handlers.ndjson import BLOCK, Tally, learn_block
from budgetron.service.http.wire import labelled_line
from budgetron.service.logs import log

if TYPE_CHECKING:
    from budgetron.service.model.served_model import ServedModel

Messages = list[tuple[int, bytes]]  # number in the stream, and content
_LONGEST_PAUSE = 10.0  # seconds between two attempts
_MAX_LOGGED = 20  # invalid messages that are logged, per connection; later ones are only counted


class Source(Protocol):
    """A stream of a broker, while a connection to it is open."""

    key: str  # identifies the stream; a stream that is deleted and created again gets another key

    def read(self, first: int) -> AsyncIterator[tuple[Messages, int]]:
        """Yield the messages from number `first` on, in order, and how many more wait.

        At a pause, yield an empty list, so that the caller can check whether to stop.
        """

    async def close(self) -> None: ...


class BrokerFailed(OperationalError):
    """The connection to the broker failed, or a message was lost on the way."""


class Consumption:
    """The messages of one stream for one model. `connect` opens a connection to the broker."""

    def __init__(
        self, name: str, connect: Callable[[], Awaitable[Source]], model: ServedModel, is_stopping: Callable[[], bool]
    ) -> None:
        self.name, self.model = name, model
        self._connect, self._is_stopping = connect, is_stopping
        self.lag = 0  # messages that wait in the stream
        self.rejected = 0
        self._rejected_before = 0  # when the connection was opened
        # The stream that is read, and its last messages that were decoded, and learned or rejected by the model, over
        # any connection. Later connections read some of these messages again, but do not count them again.
        self._key, self._decoded_to, self._answered_to = "", -1, -1

    async def run(self) -> None:
        """Read and learn until the service stops; connect again after failures, with growing pauses."""
        pause = 0.1
        while not self._is_stopping():
            before = self.model.host.position
            try:
                await self._read()
            except Exception as error:  # an unexpected exception must not end the task without a trace
                text = str(error) if isinstance(error, BudgetronError | OSError) else repr(error)
                log("consume", model=self.model.name, stream=self.name, error=text[:1000])
            pause = 0.1 if self.model.host.position > before else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _read(self) -> None:
        source = await self._connect()
        try:
            first = await asyncio.to_thread(self.model.host.end_of_stream, source.key)
            if source.key != self._key:
                self._key, self._decoded_to, self._answered_to = source.key, -1, -1
            self._rejected_before = self.rejected
            log("consume", model=self.model.name, stream=self.name, first=first)
            waiting: list[Numbered] = []  # the first examples of a new model wait until they have enough labels
            tally = Tally()
            async for messages, self.lag in source.read(first):
                waiting += self._decode(messages, tally)
                if waiting and (self.model.hosted.is_fitted or can_begin(waiting) or len(waiting) >= BLOCK):
                    for block in (waiting[i : i + BLOCK] for i in range(0, len(waiting), BLOCK)):
                        self._log_rejected(await learn_block(self.model, block, source.key, tally), self._answered_to)
                        self._answered_to = max(self._answered_to, block[-1][0])
                    waiting = []
                if self._is_stopping():
                    return
        finally:
            await source.close()

    def _decode(self, messages: Messages, tally: Tally) -> list[Numbered]:
        decoded: list[Numbered] = []
        for number, content in messages:
            try:
                decoded.append((number, labelled_line.decode(content)))
            except Exception as error:
                self._log_rejected(tally.reject(number, error), self._decoded_to)
            self._decoded_to = max(self._decoded_to, number)
        return decoded

    def _log_rejected(self, answer: bytes, counted_to: int) -> None:
        """Count and log the rejected messages in `answer`, which has the form of the response to an NDJSON stream.

        Messages up to number `counted_to` were counted when an earlier connection read them.
        """
        lines = [line for line in answer.splitlines() if b'"error"' in line and line.startswith(b'{"line"')]
        rejected = [line for line in lines if json.decode(line)["line"] > counted_to]
        logged_before = self.rejected - self._rejected_before
        self.rejected += len(rejected)
        for line in rejected[: max(0, _MAX_LOGGED - logged_before)]:
            log("consume", model=self.model.name, stream=self.name, rejected=line.decode()[:1000])
