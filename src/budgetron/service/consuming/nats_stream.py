"""Streams of NATS JetStream: `nats://HOST:PORT/STREAM`, with `?subject=mail.eu.>` to read only some of the messages.

The consumer is ephemeral and acknowledges nothing, because the log of the model has the position. JetStream delivers
the messages in order and numbers them per consumer, so that a lost message is noticed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qs, urlsplit

from budgetron.durable.requests import MAX_KEY_LENGTH
from budgetron.errors import import_extra, input_error, shown
from budgetron.service.consuming.consumption import BrokerFailed, Messages

_BATCH = 512  # messages per fetch
_PAUSE = 0.5  # seconds without a message after which the reader checks whether the service is stopping
_FORGOTTEN_AFTER = 60.0  # seconds after which the server deletes the consumer of a killed reader


class StreamAddress:
    """The parts of an address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.stream, query = parts.path.strip("/"), parse_qs(parts.query)
        if parts.scheme not in ("nats", "tls") or not parts.hostname or not self.stream or set(query) - {"subject"}:
            raise input_error("serve", "--consume", "nats://HOST:PORT/STREAM, with ?subject=... or without", shown(url))
        self.server = f"{parts.scheme}://{parts.netloc}"
        self.subject = query.get("subject", [">"])[0]
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{self.stream}"  # without a password

    def key(self, created: datetime) -> str:
        """Return the idempotency key of the stream: names and time of creation, or their hash if they are too long."""
        # The key has the time of creation, because a stream that is deleted and created again numbers its messages from
        # 1 again.
        key = f"nats:{self.stream}:{self.subject}:{created.isoformat()}"
        return key if len(key) <= MAX_KEY_LENGTH else f"nats:{blake2b(key.encode(), digest_size=16).hexdigest()}"


class NatsStream:
    """An open connection to a stream."""

    def __init__(self, connection: Any, address: StreamAddress, key: str, oldest: int) -> None:
        self._connection, self._address, self.key = connection, address, key
        self._oldest = oldest  # the number of the oldest message that the broker still has

    @classmethod
    async def connect(cls, address: StreamAddress) -> NatsStream:
        nats = import_extra("serve --consume", "nats", "nats")
        try:
            connection = await nats.connect(address.server, allow_reconnect=False, connect_timeout=5)
        except Exception as error:  # the client raises errors of many kinds, also plain exceptions
            raise BrokerFailed(f"NATS: {address.name}: {str(error) or type(error).__name__}") from error
        try:
            info = await connection.jetstream().stream_info(address.stream)
        except Exception as error:
            await connection.close()
            message = f"NATS: {address.name}: {str(error) or 'no answer'}. Create the stream, or correct its name."
            raise BrokerFailed(message) from error
        return cls(connection, address, address.key(info.created), info.state.first_seq)

    async def read(self, first: int) -> AsyncIterator[tuple[Messages, int]]:
        api = import_extra("serve --consume", "nats.js.api", "nats")
        errors = import_extra("serve --consume", "nats.errors", "nats")
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, first, self._oldest),
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=_FORGOTTEN_AFTER,
        )
        address, n = self._address, 0  # n: messages received so far
        try:
            jetstream = self._connection.jetstream()
            subscription = await jetstream.pull_subscribe(address.subject, stream=address.stream, config=config)
            while True:
                try:
                    fetched = await subscription.fetch(_BATCH, timeout=_PAUSE)
                except errors.TimeoutError:
                    if not self._connection.is_connected:
                        raise BrokerFailed(f"NATS: {address.name}: the connection was closed") from None
                    yield [], 0
                    continue
                messages = [(message.metadata, message.data) for message in fetched]
                for metadata, _ in messages:
                    n += 1
                    if metadata.sequence.consumer != n:
                        raise BrokerFailed(f"NATS: {address.name}: message {n} was lost on the way")
                yield (
                    [(metadata.sequence.stream, data) for metadata, data in messages],
                    messages[-1][0].num_pending or 0,
                )
        except errors.Error as error:
            raise BrokerFailed(f"NATS: {address.name}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        await self._connection.close()
