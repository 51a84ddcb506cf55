"""POST learn: labelled examples, one or several per request, which are learned together or rejected together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from starlette.responses import Response

from budgetron.durable import Request
from budgetron.errors import input_error, shown
from budgetron.service.handlers.features import check_text, feature_warning, offsets_of, rows_of, tasks_of
from budgetron.service.http.wire import (
    LabelledExample,
    LearnAnswer,
    LearnRequest,
    encode,
    fields_given,
    learn_request,
    reply,
)

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.served_model import ServedModel

DIVIDE = "Divide them among several requests, or send a stream of NDJSON."  # the remedy for too many examples
_MAX_KEY_LENGTH = 150


async def learn(call: Call) -> Response:
    body = learn_request.decode(await call.body())
    examples = _examples(body, call.limits.examples)
    if len(examples) > 1:
        call.charge(len(examples) - 1)  # the request itself has been charged as one example
    classes = None if body.classes is UNSET else body.classes
    request = request_of(call.model, examples, idempotency_key(call, body.key), classes)
    learned = await call.model.writer.submit(request, len(examples))
    n, hosted = len(learned.margins), call.model.hosted
    warning = next(filter(None, (feature_warning(hosted, example.features) for example in examples)), None)
    return reply(encode(LearnAnswer(learned.position, n, learned.repeated, learned.margins.tolist(), warning)))


def request_of(
    model: ServedModel, examples: Sequence[LabelledExample], key: str | None = None, classes: Any = None
) -> Request:
    """The examples as a request to the host."""
    limits = model.limits
    for example in examples:
        check_text("label", example.label, limits)
    weights = None
    if any(example.weight is not UNSET for example in examples):
        weights = [1.0 if example.weight is UNSET else example.weight for example in examples]
    return Request(
        X=rows_of(model.hosted, [example.features for example in examples], limits),
        y=[example.label for example in examples],
        tasks=tasks_of([example.task for example in examples], limits),
        key=key,
        classes=classes,
        sample_weight=weights,
        offset=offsets_of([example.offset for example in examples]),
    )


def idempotency_key(call: Call, field: Any = UNSET) -> str | None:
    """The idempotency key: the field "key" of the body or the header `Idempotency-Key`; None without either."""
    header = call.request.headers.get("idempotency-key")
    if header is None:
        return None if field is UNSET else str(field)
    if field is not UNSET and field != header:
        raise input_error(
            "learn", '"key"', "equal to the header Idempotency-Key", "two different keys", "Send one of them."
        )
    if not 1 <= len(header) <= _MAX_KEY_LENGTH or not header.isprintable():
        accepted = f"1 to {_MAX_KEY_LENGTH} printable characters"
        raise input_error("learn", "the header Idempotency-Key", accepted, shown(header))
    return header


def _examples(body: LearnRequest, limit: int) -> list[LabelledExample]:
    accepted = 'an object with "features" and "label", or with "examples"'
    if body.examples is UNSET:
        if body.features is UNSET or body.label is UNSET:
            got = "neither" if body.features is body.label is UNSET else "only one of them"
            raise input_error("learn", "the body", accepted, got)
        return [LabelledExample(body.features, body.label, body.task, body.weight, body.offset)]
    if beside := fields_given(body, "features", "label", "task", "weight", "offset"):
        raise input_error("learn", "the body", accepted, f'{beside} beside "examples"', "Move it into each example.")
    if not 1 <= len(body.examples) <= limit:
        divide = DIVIDE if body.examples else ""
        raise input_error("learn", '"examples"', f"1 to {limit} examples", str(len(body.examples)), divide)
    return body.examples
