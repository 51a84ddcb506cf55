"""Labelled examples, one or many in a request, learned together or refused together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from budgetron.durable import Request
from budgetron.errors import refuse, shown
from budgetron.service.exchange import Exchange
from budgetron.service.features import check_text, rows_of, tasks_of
from budgetron.service.wire import LabelledExample, LearnAnswer, LearnRequest, encode, learn_request

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

_LONGEST_KEY = 150


def request_of(
    hosted: Hosted, examples: Sequence[LabelledExample], key: str | None = None, classes: Any = None
) -> Request:
    """The examples as the host takes them."""
    limits = hosted.limits
    for example in examples:
        check_text("label", example.label, limits)
    weights = None
    if any(example.weight is not UNSET for example in examples):
        weights = [1.0 if example.weight is UNSET else example.weight for example in examples]
    return Request(
        X=rows_of(hosted.kept, [example.features for example in examples], limits),
        y=[example.label for example in examples],
        tasks=tasks_of([example.task for example in examples], limits),
        key=key,
        classes=classes,
        sample_weight=weights,
    )


async def learn(hosted: Hosted, exchange: Exchange) -> None:
    """POST learn."""
    given = learn_request.decode(await exchange.body())
    examples = _examples(given, exchange.limits.examples)
    if len(examples) > 1:
        exchange.pay(len(examples) - 1)
    classes = None if given.classes is UNSET else given.classes
    request = request_of(hosted, examples, key_of(exchange, given.key), classes)
    learned = await hosted.writer.submit(request, len(examples))
    n = len(learned.margins)
    await exchange.reply(encode(LearnAnswer(learned.position, n, learned.repeated, learned.margins.tolist())))


def key_of(exchange: Exchange, given: Any = UNSET) -> str | None:
    """The idempotency key: of the body, or of the header `Idempotency-Key`."""
    header = exchange.headers.get(b"idempotency-key")
    if header is None:
        return None if given is UNSET else str(given)
    text = header.decode("latin-1")
    if given is not UNSET and given != text:
        raise refuse("learn", "key", "the same in the body and in Idempotency-Key", "two of them")
    if not 1 <= len(text) <= _LONGEST_KEY or not text.isprintable():
        raise refuse("learn", "Idempotency-Key", f"1 to {_LONGEST_KEY} printable characters", shown(text))
    return text


def _examples(given: LearnRequest, most: int) -> list[LabelledExample]:
    if given.examples is UNSET:
        if given.features is UNSET or given.label is UNSET:
            raise refuse("learn", "the body", 'one with "features" and "label", or with "examples"', "neither")
        return [LabelledExample(given.features, given.label, given.task, given.weight)]
    if given.features is not UNSET or given.label is not UNSET or given.task is not None or given.weight is not UNSET:
        raise refuse("learn", "the body", 'one with "features" and "label", or with "examples"', "both")
    if not 1 <= len(given.examples) <= most:
        raise refuse("learn", "examples", f"1 to {most}", str(len(given.examples)))
    return given.examples
