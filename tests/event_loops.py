"""Run coroutines in tests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


def run(coroutine):
    """Run a coroutine in a new event loop in a new thread, because Playwright's loop may run in the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
