"""What a sharded model is, on disk: a small JSON beside the shards, replaced in one step and written last."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.distributed.door import Door
from budgetron.distributed.files import get, put
from budgetron.distributed.placement import WHO
from budgetron.durable.models import kept_of
from budgetron.engine.memory import budget_of
from budgetron.errors import refuse
from budgetron.learners.saved import content_of
from budgetron.persist.names import NoJSON, decoded, encoded

NAME = "sharded.json"
FORMAT = 2


class ShardFile(msgspec.Struct, forbid_unknown_fields=True):
    """One shard in a saved model."""

    name: str
    digest: str


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """Everything but the shards themselves."""

    format: int
    kind: str  # the class: ShardedModel or ReplicatedModel
    term: int  # of the coordinator that wrote it: a later one has a higher number, and its epochs are higher
    shards: int
    shares: str
    pins: list[tuple[Any, int]]
    budget: int | str | None  # the total; in format 1 that of each replica, where there are replicas
    door: ShardFile  # the learner that has begun and learned nothing: parameters, graph, classes, kernel
    files: list[ShardFile] = []  # of a saved model; a live one has a folder a shard
    exchange_every: int | None = None  # of replicas


def pins_record(pins: dict[Any, int]) -> list[tuple[Any, int]]:
    try:
        return [(encoded(task), shard) for task, shard in pins.items()]
    except NoJSON:
        raise refuse(WHO, "pins", "of tasks that JSON can hold (numbers, strings, dates, tuples)", "another") from None


def write(target: str, record: Record) -> None:
    put(target, NAME, msgspec.json.encode(record))


def read(source: str) -> Record:
    """The record of a place; refused where there is none, or one of another format."""
    try:
        record = msgspec.json.decode(get(source, NAME), type=Record)
    except msgspec.DecodeError as error:
        raise refuse(WHO, NAME, "one that a sharded model wrote", f"something else ({error})") from None
    if not 1 <= record.format <= FORMAT:
        raise refuse(WHO, NAME, f"of format {FORMAT} or earlier", str(record.format), "A newer budgetron reads it.")
    if record.format == 1 and record.kind == "ReplicatedModel":
        # Each replica had the whole budget, and keeps it: the total is what they have together.
        each = budget_of(WHO, record.budget)
        if each.bytes is not None:
            record.budget = f"{each.bytes * record.shards} B"
        elif each.examples is not None:
            record.budget = each.examples * record.shards
    return record


def put_door(target: str, door: Door, stamp: str) -> ShardFile:
    name = f"door-{stamp}.budgetron"
    with door.scout._guard:
        content = content_of(door.scout)
    return ShardFile(name, put(target, name, content))


def get_door(source: str, record: Record) -> Door:
    """The door again, and with it the learner as the caller made it."""
    scout = kept_of(get(source, record.door.name, record.door.digest)).model
    learner = type(scout)(**scout.get_params(deep=False))
    if "budget" in learner.get_params(deep=False):
        learner.set_params(budget=record.budget)
    door = Door(learner)
    door.scout = scout
    return door


def pins_of(record: Record) -> dict[Any, int]:
    return {decoded(task): shard for task, shard in record.pins}
