"""Learn and predict over streams of NDJSON: one example per line, answered in blocks while later lines still arrive.

    POST predict    one line per prediction, in order
    POST learn      one line per block: {"lines": [1, 512], "position": 17, "learned": 512, "wrong": 61}
                    plus "warning" and "warning_line" if a line has features that the model does not know, or lacks most
                    columns of the model; plus "repeated" or "learned_before" if lines were learned before
    both paths      {"line": 7, "error": {"kind", "message"}} for a rejected line; the other lines are processed
    the last line   {"done": true, "lines": 1000, "refused": 1}
    or, on failure  {"error": {…}, "lines": 1000, "refused": 1, "acknowledged": 511, "unacknowledged_from": 513}
    or, on shutdown the same as on failure, with "done": false

An acknowledged block is on disk. One block is learned while the next one is read. No further blocks are read ahead. So
a client that sends faster than the model learns has to wait, and memory stays bounded. When the stream pauses, the
lines so far are learned at once. Only lines for a new model wait until they have enough labels (see `beginning`).

With the header Idempotency-Key, a client may send a stream again from its beginning after any interruption. The number
of each line is logged with its row, so lines that were learned are skipped, wherever the stream was cut. Different
content under a learned line number ends the stream with the error `key_reused`. A failure that no line caused, such as
a full disk, also ends the stream, so that no later line is learned before the failed lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from budgetron.durable import HostedModel, KeyReused, Learned, StreamRows, row_digest
from budgetron.errors import InputError, error_message
from budgetron.learners.input.classes import in_known_spelling
from budgetron.service.handlers.beginning import Numbered, can_begin, labels_of, unusual_form, usual_lines
from budgetron.service.handlers.features import feature_warning
from budgetron.service.handlers.learning import idempotency_key, request_of
from budgetron.service.http.call import Call, TwoWayStream
from budgetron.service.http.problems import HTTPProblem, fault, problem_of
from budgetron.service.http.wire import Problem, encode, example_line, labelled_line
from budgetron.service.logs import log

if TYPE_CHECKING:
    from budgetron.service.model.served_model import ServedModel

NDJSON = "application/x-ndjson"
BLOCK = 512  # lines
_PAUSE = 0.02  # seconds without a line after which the lines so far are processed


async def learn_stream(call: Call) -> Response:
    tally = Tally()
    return TwoWayStream(_until_failure(_learn_lines(call, idempotency_key(call), tally), tally), NDJSON)


async def predict_stream(call: Call) -> Response:
    tally = Tally()
    return TwoWayStream(_until_failure(_predict_lines(call, tally), tally), NDJSON)


class Tally:
    """Counts of the lines of one stream so far."""

    def __init__(self) -> None:
        self.lines = self.refused = self.acknowledged = 0
        self.answered = 0  # every line up to this one has been answered
        self.stopped = False

    def reject(self, line: int, error: Exception) -> bytes:
        """Count a rejected line and return its report. An error that the line did not cause is raised again."""
        problem = problem_of(error)
        if problem is None or problem.status >= 500:
            raise error
        self.refused += 1
        if line == self.answered + 1:
            self.answered = line
        return encode({"line": line, "error": Problem(problem.kind, problem.message)}) + b"\n"

    def end(self) -> bytes:
        if not self.stopped:
            return encode({"done": True, "lines": self.lines, "refused": self.refused}) + b"\n"
        message = "service: the service is stopping. Send the remaining lines again after its restart."
        return encode({"done": False, **self.early_end(HTTPProblem(503, "stopping", message))}) + b"\n"

    def early_end(self, problem: HTTPProblem) -> dict[str, Any]:
        """Return the last answer of a stream that ends early: reason, counts, and the first line without an answer."""
        counts = {"lines": self.lines, "refused": self.refused, "acknowledged": self.acknowledged}
        if self.answered < self.lines:
            counts["unacknowledged_from"] = self.answered + 1
        return {"error": Problem(problem.kind, problem.message), **counts}


async def _until_failure(lines: AsyncIterator[bytes], tally: Tally) -> AsyncIterator[bytes]:
    """Report a failure in the last line of the response, because the status of the response has already been sent."""
    try:
        async for line in lines:
            yield line
    except ClientDisconnect:
        raise
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            log("fault", path="stream", error=repr(error)[:1000])
        yield encode(tally.early_end(problem or fault())) + b"\n"


async def _learn_lines(call: Call, key: str | None, tally: Tally) -> AsyncIterator[bytes]:
    """Learn the lines of a stream in blocks, and yield the lines of the response."""
    under_way: asyncio.Task[bytes] | None = None  # learns one block while the next one is read

    def is_enough(block: list[Numbered]) -> bool:
        return call.model.hosted.is_fitted or can_begin(block)

    try:
        async for block, rejected, paused in _blocks(call, labelled_line, tally, is_enough):
            if under_way is not None:
                yield await under_way
                under_way = None
            if rejected:
                yield rejected
            if block:
                await call.wait_and_charge(len(block))
                under_way = asyncio.create_task(learn_block(call.model, block, key, tally))
                if paused:  # the client waits for this answer before it sends more
                    yield await under_way
                    under_way = None
        if under_way is not None:
            yield await under_way
            under_way = None
        yield tally.end()
    finally:
        if under_way is not None:
            under_way.cancel()


async def _predict_lines(call: Call, tally: Tally) -> AsyncIterator[bytes]:
    async for block, rejected, _ in _blocks(call, example_line, tally, lambda _: True):
        if rejected:
            yield rejected
        if block:
            await call.wait_and_charge(len(block))
            yield await _predict(call.model, block, tally)
    yield tally.end()


async def _blocks(
    call: Call, decoder: Any, tally: Tally, is_enough: Callable[[list[Numbered]], bool]
) -> AsyncIterator[tuple[list[Numbered], bytes, bool]]:
    """Yield blocks of examples, the reports of invalid lines, and whether the stream pauses.

    At a pause, the lines so far are yielded only if `is_enough` accepts them; otherwise they wait for more lines.
    """
    rest, rejected = b"", b""
    block: list[Numbered] = []
    limit = call.limits.line_bytes
    async for piece in call.pieces(_PAUSE):
        if piece is None:  # nothing arrived for _PAUSE seconds
            ready = block if is_enough(block) else []
            if ready or rejected:
                yield ready, rejected, True
                block, rejected = [] if ready else block, b""
            if call.is_stopping():
                tally.stopped = True
                break
            continue
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        if len(rest) > limit:
            raise _line_too_long(limit)
        for line in lines:
            rejected += _read_line(line, decoder, block, tally, limit)
            if len(block) == BLOCK or len(rejected) > limit:
                yield block, rejected, False
                block, rejected = [], b""
        if call.is_stopping():
            tally.stopped = True
            break
    else:
        rejected += _read_line(rest, decoder, block, tally, limit)
    if tally.stopped and not is_enough(block):
        # A new model would reject these lines, because they have too few labels. They get no answer instead, so that
        # the client sends them again after the restart.
        block = []
    if block or rejected:
        yield block, rejected, False


def _read_line(line: bytes, decoder: Any, block: list[Numbered], tally: Tally, limit: int) -> bytes:
    """Append the example of a line to the block, or return the report of an invalid line. Blank lines do not count."""
    if not line or line.isspace():
        return b""
    tally.lines += 1
    try:
        if len(line) > limit:
            raise _line_too_long(limit)
        block.append((tally.lines, decoder.decode(line)))
    except Exception as error:
        return tally.reject(tally.lines, error)
    return b""


def _line_too_long(limit: int) -> HTTPProblem:
    return HTTPProblem(
        413, "too_long", error_message("stream", "a line", f"at most {limit} bytes long", "a longer one")
    )


async def learn_block(
    model: ServedModel, block: list[Numbered], key: str | None, tally: Tally, classes: list[Any] | None = None
) -> bytes:
    """Learn a block. If it is rejected, retry line by line, so that only invalid lines are rejected."""
    first, last = block[0][0], block[-1][0]
    examples = [example for _, example in block]
    try:
        request = request_of(model, examples, key, classes)
        if key is not None:
            digests = b"".join(row_digest(encode(example)) for example in examples)
            request = replace(request, rows=StreamRows(np.array([line for line, _ in block]), digests))
        learned = await model.writer.submit(request, len(examples))
        tally.answered = last
        tally.acknowledged += len(examples)
        return _acknowledgement(block, learned, model.hosted)
    except InputError as error:
        if isinstance(error, KeyReused):
            raise  # the key was used with a stream of other content before
        if len(block) == 1:
            answer = tally.reject(first, error)
            tally.answered = last
            return answer
    answers: list[bytes] = []
    if not model.hosted.is_fitted:  # one line alone must not decide the form and labels of a new model
        usual = usual_lines(block)
        lines = {line for line, _ in usual}
        answers += [
            tally.reject(line, unusual_form(example, usual[0][1])) for line, example in block if line not in lines
        ]
        labels = labels_of(usual)
        block, classes = usual, labels if len(labels) > 1 else None
    for numbered in block:
        answers.append(await learn_block(model, [numbered], key, tally, None if model.hosted.is_fitted else classes))
    tally.answered = last
    return b"".join(answers)


def _acknowledgement(block: list[Numbered], learned: Learned, hosted: HostedModel) -> bytes:
    margins, first, last = learned.margins, block[0][0], block[-1][0]
    answer: dict[str, Any] = {"lines": [first, last], "position": learned.position, "learned": len(margins)}
    # A repeated request may have been learned by a model that was replaced since; then `classes` is None. Its margins
    # may have been deleted; then they are NaN. In both cases the number of wrong predictions is unknown.
    if learned.classes is not None and not np.isnan(margins).any():
        codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        labels = in_known_spelling(learned.classes, [example.label for _, example in block])
        answer["wrong"] = int((learned.classes[codes] != labels).sum())
    if learned.repeated:
        answer["repeated"] = True
    elif learned.n_before:
        answer["learned_before"] = learned.n_before
    for line, example in block:
        if (warning := feature_warning(hosted, example.features)) is not None:
            answer |= {"warning": warning, "warning_line": line}
            break
    return encode(answer) + b"\n"


async def _predict(model: ServedModel, block: list[Numbered], tally: Tally) -> bytes:
    examples = [example for _, example in block]
    try:
        predictions = await model.predictor.many(examples)
        model.statistics.n_predicted += len(predictions)
        tally.answered = block[-1][0]
        tally.acknowledged += len(predictions)
        return b"".join([encode(prediction) + b"\n" for prediction in predictions])
    except Exception as error:
        if len(block) == 1 or problem_of(error) is None:
            answer = tally.reject(block[0][0], error)
            tally.answered = block[-1][0]
            return answer
    return b"".join([await _predict(model, [numbered], tally) for numbered in block])
