"""Streams of NDJSON: one example a line in, answers out while they come, and never more in memory than a few blocks.

    POST predict    a line a prediction, in order
    POST learn      a line a block: {"lines": [1, 512], "position": 17, "learned": 512, "wrong": 61}
    either          {"line": 7, "error": {"kind", "message"}} for a line that is refused; the others go on
    at the end      {"done": true, "lines": 1000, "refused": 1}; without it, something was cut short

A block that is acknowledged is on disk. One block is learned while the next is read, and no more: a client that sends
faster waits. What has come is learned as soon as the stream pauses.

With the header Idempotency-Key the stream may be sent again from its beginning, after any break: the place of each line
is noted with the rows in the log, so lines that were learned are skipped wherever the stream was cut, and other lines
in their place are refused (409). A failure that is not the fault of a line ends the stream: to learn later lines would
pass over the earlier ones for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron.durable import KeyReused, Learned, StreamRows, row_digest
from budgetron.errors import InputError, refusal
from budgetron.service.exchange import NDJSON, Exchange
from budgetron.service.learning import key_of, request_of
from budgetron.service.problems import Refused, refused_of
from budgetron.service.wire import Problem, encode, example_line, labelled_line

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

BLOCK = 512  # lines
_PAUSE = 0.02  # seconds
_Numbered = tuple[int, Any]  # the number of a line, and its example


async def learn_stream(hosted: Hosted, exchange: Exchange, stopping: Callable[[], bool]) -> None:
    """POST learn of NDJSON."""
    key = key_of(exchange)
    await exchange.begin(NDJSON)
    tally = Tally()
    flight: asyncio.Task[bytes] | None = None  # the block that is being learned while the next one is read
    try:
        async for block, refused, paused in _blocks(exchange, labelled_line, tally, stopping):
            if flight is not None:
                await exchange.write(await flight)
                flight = None
            if refused:
                await exchange.write(refused)
            if block:
                await exchange.wait_to_pay(len(block))
                flight = asyncio.create_task(_learned(hosted, block, key, tally))
                if paused:  # nothing to be read meanwhile
                    await exchange.write(await flight)
                    flight = None
        if flight is not None:
            await exchange.write(await flight)
        await exchange.write(tally.end(), more=False)
    finally:
        if flight is not None:
            flight.cancel()


async def predict_stream(hosted: Hosted, exchange: Exchange, stopping: Callable[[], bool]) -> None:
    """POST predict of NDJSON."""
    await exchange.begin(NDJSON)
    tally = Tally()
    async for block, refused, _ in _blocks(exchange, example_line, tally, stopping):
        if refused:
            await exchange.write(refused)
        if block:
            await exchange.wait_to_pay(len(block))
            await exchange.write(await _predicted(hosted, block, tally))
    await exchange.write(tally.end(), more=False)


class Tally:
    """Lines so far."""

    def __init__(self) -> None:
        self.lines = self.refused = 0
        self.stopped = False

    def problem(self, line: int, error: Exception) -> bytes:
        """The line that says why another was refused; an error that is not about the line is raised."""
        refused = refused_of(error)
        if refused is None or refused.status >= 500:
            raise error
        self.refused += 1
        return encode({"line": line, "error": Problem(refused.kind, refused.message)}) + b"\n"

    def end(self) -> bytes:
        done = {"done": not self.stopped, "lines": self.lines, "refused": self.refused}
        if self.stopped:
            message = refusal("service", "it", "running", "one that is stopping", "Send the rest again.")
            done["error"] = Problem("stopping", message)  # type: ignore[assignment]
        return encode(done) + b"\n"


async def _blocks(
    exchange: Exchange, decoder: Any, tally: Tally, stopping: Callable[[], bool]
) -> AsyncIterator[tuple[list[_Numbered], bytes, bool]]:
    """Lines as examples, so many at a time; what to say of those that are none; and whether the stream pauses."""
    rest, refused = b"", b""
    block: list[_Numbered] = []
    limit = exchange.limits.line_bytes
    async for piece in exchange.pieces(_PAUSE):
        if piece is None:
            if block or refused:
                yield block, refused, True
                block, refused = [], b""
            continue
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        if len(rest) > limit:
            raise Refused(413, "too_long", refusal("stream", "a line", f"of at most {limit} bytes", "a longer one"))
        for line in lines:
            refused += _read(line, decoder, block, tally, limit)
            if len(block) == BLOCK or len(refused) > limit:
                yield block, refused, False
                block, refused = [], b""
        if stopping():
            tally.stopped = True
            break
    else:
        refused += _read(rest, decoder, block, tally, limit)
    if block or refused:
        yield block, refused, False


def _read(line: bytes, decoder: Any, block: list[_Numbered], tally: Tally, limit: int) -> bytes:
    if not line or line.isspace():
        return b""
    tally.lines += 1
    try:
        if len(line) > limit:
            raise Refused(413, "too_long", refusal("stream", "a line", f"of at most {limit} bytes", "a longer one"))
        block.append((tally.lines, decoder.decode(line)))
    except Exception as error:
        return tally.problem(tally.lines, error)
    return b""


async def _learned(hosted: Hosted, block: list[_Numbered], key: str | None, tally: Tally) -> bytes:
    """One block, whole; or, where it is refused, line by line, so that only invalid lines are rejected."""
    first, last = block[0][0], block[-1][0]
    examples = [example for _, example in block]
    try:
        request = request_of(hosted, examples, key)
        if key is not None:
            digests = b"".join(row_digest(encode(example)) for example in examples)
            request = replace(request, rows=StreamRows(np.array([line for line, _ in block]), digests))
        learned = await hosted.writer.submit(request, len(examples))
        return _acknowledged(first, last, learned, examples)
    except InputError as error:
        if isinstance(error, KeyReused):
            raise  # the whole stream is another one than came before under this key
        if len(block) == 1:
            return tally.problem(first, error)
    answers = []
    for numbered in block:
        answers.append(await _learned(hosted, [numbered], key, tally))
    return b"".join(answers)


def _acknowledged(first: int, last: int, learned: Learned, examples: list[Any]) -> bytes:
    margins = learned.margins
    answer: dict[str, Any] = {"lines": [first, last], "position": learned.position, "learned": len(margins)}
    if learned.classes is not None and not np.isnan(margins).any():  # not those of another model, nor forgotten
        codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        said = learned.classes[codes].tolist()
        answer["wrong"] = sum(label != example.label for label, example in zip(said, examples, strict=True))
    if learned.repeated:
        answer["repeated"] = True
    elif learned.n_before:
        answer["learned_before"] = learned.n_before
    return encode(answer) + b"\n"


async def _predicted(hosted: Hosted, block: list[_Numbered], tally: Tally) -> bytes:
    examples = [example for _, example in block]
    try:
        features, tasks = [e.features for e in examples], [e.task for e in examples]
        answers = await hosted.predictor.many(features, tasks)
        hosted.watch.n_predicted += len(answers)
        return b"".join([encode(answer) + b"\n" for answer in answers])
    except Exception as error:
        if len(block) == 1 or refused_of(error) is None:
            return tally.problem(block[0][0], error)
    return b"".join([await _predicted(hosted, [numbered], tally) for numbered in block])
