"""How often a call is sent, and what comes of it: the one loop of both clients, who differ in how they wait.

    for wait in tries:          seconds, 0 at first; the loop ends with an answer, or by a refusal that is raised
        sleep(wait); tries.heard(answer) or tries.lost(error)
    tries.answer
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from budgetron.client.answers import Unreachable, error_of
from budgetron.client.calls import Call, Settings

AGAIN = frozenset({408, 429, 502, 503, 504, 507})  # may pass: the service is busy, restarting, or short of disk
_LONGEST_WAIT = 10.0


class Tries:
    """One call, until it is answered or given up. The same bytes are sent each time."""

    def __init__(self, settings: Settings, call: Call) -> None:
        self._settings, self._call = settings, call
        content, headers = call.sent()
        self.request = {"method": call.method, "url": call.path, "content": content, "headers": headers}
        self.answer: Any = None
        self._is_answered = False
        self._retry_after: str | None = None
        self._refused: Exception | None = None

    def __iter__(self) -> Iterator[float]:
        yield 0.0
        for attempt in range(self._settings.retries):
            if self._is_answered:
                return
            yield _wait(attempt, self._retry_after)
        if not self._is_answered:
            assert self._refused is not None
            raise self._refused

    def heard(self, answer: Any) -> None:
        """An answer came. One that no further try would change is raised."""
        if answer.status_code == 200:
            self.answer, self._is_answered = self._call.decoded(answer.content), True
            return
        self._refused = error_of(answer.status_code, answer.content)
        if answer.status_code not in AGAIN:
            raise self._refused
        self._retry_after = answer.headers.get("retry-after")

    def lost(self, error: Exception) -> None:
        """No answer came."""
        self._retry_after = None
        tries, why = self._settings.retries + 1, f"{type(error).__name__}: {error}"
        self._refused = Unreachable(f"Client: no answer from {self._settings.url} in {tries} tries; the last: {why}")


def _wait(attempt: int, retry_after: str | None) -> float:
    """Seconds before another try: what the service asks for, or longer each time, and never the same for all."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), _LONGEST_WAIT)
    return min(_LONGEST_WAIT, 0.05 * 2.0**attempt) * random.uniform(0.5, 1.0)
