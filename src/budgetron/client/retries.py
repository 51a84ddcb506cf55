"""The retry loop of both clients. The clients differ only in how they send and sleep.

    attempts = Retries(settings, call)
    for wait in attempts:  # seconds; 0 before the first attempt
        sleep(wait)
        try:
            attempts.on_response(send(attempts.request))
        except TransportError as error:
            attempts.on_no_response(error)
    return attempts.answer

The loop ends with an answer, or raises the last error after all retries. Use it only for requests that are safe to
repeat.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from budgetron.client.calls import Call, ClientSettings
from budgetron.client.responses import Unreachable, error_of

# Statuses after which a retry may succeed: the service is busy, restarting or short of disk space; or the client was
# too slow, or exceeded a rate.
RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504, 507})
_MAX_WAIT = 10.0  # seconds


class Retries:
    """One call with its retries. Every attempt sends the same bytes, so the idempotency key is the same too."""

    def __init__(self, settings: ClientSettings, call: Call) -> None:
        self._settings, self._call = settings, call
        content, headers = call.encode()
        self.request = {"method": call.method, "url": call.path, "content": content, "headers": headers}
        self.answer: Any = None  # the decoded response
        self._is_answered = False
        self._retry_after: str | None = None
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[float]:
        yield 0.0
        for attempt in range(self._settings.retries):
            if self._is_answered:
                return
            yield _wait(attempt, self._retry_after)
        if not self._is_answered:
            assert self._error is not None
            raise self._error

    def on_response(self, response: Any) -> None:
        """Handle a response: decode an answer, store an error that a retry may solve, or raise any other error."""
        if response.status_code == 200:
            self.answer, self._is_answered = self._call.decode(response.content), True
            return
        self._error = error_of(response.status_code, response.content)
        if response.status_code not in RETRIED_STATUSES:
            raise self._error
        self._retry_after = response.headers.get("retry-after")

    def on_no_response(self, error: Exception) -> None:
        """Handle a failed connection or a timeout: store the error, to raise it after the last retry."""
        self._retry_after = None
        attempts = self._settings.retries + 1
        self._error = Unreachable(
            f"Client: the request to {self._settings.url} failed in {attempts} attempts. There was no response to the "
            f"last one ({type(error).__name__}: {error}). Check the URL and that the service is running."
        )


def _wait(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt, from the header Retry-After or by exponential backoff.

    The random factor prevents clients that failed at the same time from retrying at the same time.
    """
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), _MAX_WAIT)
    return min(_MAX_WAIT, 0.05 * 2.0**attempt) * random.uniform(0.5, 1.0)
