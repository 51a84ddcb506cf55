"""`sharded.json`: the description of a sharded model beside its shards.

`on_disk` writes it atomically, after the files that it names, so a folder contains the old model or the new one, never
a mixture. Fields and file names are a format: folders of every earlier version must open.
"""

from __future__ import annotations

from typing import Any

import msgspec

from budgetron.distributed.directory.file_access import read_file, write_file
from budgetron.distributed.input_validation import InputValidator
from budgetron.distributed.split.placement import WHO
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.engine.memory import budget_of
from budgetron.errors import InputError, input_error
from budgetron.learners.lifecycle.saved import content_of
from budgetron.persist.names import NoJSON, decode_name, encode_name

NAME = "sharded.json"
FORMAT = 2


class ShardFile(msgspec.Struct, forbid_unknown_fields=True):
    """The name and SHA-256 of a model file."""

    name: str
    digest: str


class DirectoryRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Everything about a sharded model except the shards themselves."""

    format: int
    kind: str  # the class: ShardedModel or ReplicatedModel
    # The number of the coordinator, the process that has the model open. A later coordinator has a higher term, and
    # therefore higher epochs.
    term: int
    shards: int
    shares: str
    pins: list[tuple[Any, int]]
    budget: int | str | None  # the total budget; in format 1 of a ReplicatedModel, the budget of each replica
    # The prototype of `input_validation`: a learner that has parameters, graph, classes and kernel, but has learned
    # nothing. The file calls it "door", as format 1 did, because directories of every version must open.
    prototype: ShardFile = msgspec.field(name="door")
    files: list[ShardFile] = []  # the model files of a saved model; a live one has a folder per shard instead
    exchange_every: int | None = None  # only for a ReplicatedModel


def pins_record(pins: dict[Any, int]) -> list[tuple[Any, int]]:
    """Encode the pins, which assign tasks to shards, for the record."""
    try:
        return [(encode_name(task), shard) for task, shard in pins.items()]
    except NoJSON:
        raise input_error(WHO, "pins", "given for tasks that JSON can hold (numbers, strings, dates, tuples)",
                          "another kind of task", "Use such values as tasks.") from None  # fmt: skip


def write_record(target: str, record: DirectoryRecord) -> None:
    write_file(target, NAME, msgspec.json.encode(record))


def read_record(source: str, who: str = "sharded model") -> DirectoryRecord:
    """Read the record of a folder or URL. Raises `InputError` if there is none, or one of a newer format.

    `who` is the class that the caller expects there, for messages.
    """
    try:
        record = msgspec.json.decode(read_file(source, NAME, who), type=DirectoryRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{who}: {NAME} in {source!r} is damaged: {error}. Restore the file from a backup."
        ) from None
    if not 1 <= record.format <= FORMAT:
        raise input_error(who, NAME, f"of format {FORMAT} or earlier", str(record.format), "Use a newer budgetron.")
    if record.format == 1 and record.kind == "ReplicatedModel":
        # Format 1 stored the budget of each replica. The replicas keep it, so the total is the sum.
        of_replica = budget_of(record.kind, record.budget)
        if of_replica.bytes is not None:
            record.budget = f"{of_replica.bytes * record.shards} B"
        elif of_replica.examples is not None:
            record.budget = of_replica.examples * record.shards
    return record


def write_prototype(target: str, validator: InputValidator, stamp: str) -> ShardFile:
    """Write the model file of the prototype, under a name that no earlier save used."""
    name = f"door-{stamp}.budgetron"
    with validator.prototype._guard:
        content = content_of(validator.prototype)
    return ShardFile(name, write_file(target, name, content))


def read_validator(source: str, record: DirectoryRecord) -> InputValidator:
    """Read the prototype, and restore the validator with the learner as the caller created it."""
    content = read_file(source, record.prototype.name, record.kind, record.prototype.digest)
    prototype = hosted_model_from(content).model
    learner = type(prototype)(**prototype.get_params(deep=False))
    if "budget" in learner.get_params(deep=False):
        learner.set_params(budget=record.budget)
    validator = InputValidator(learner, record.kind)
    validator.prototype = prototype
    return validator


def pins_of(record: DirectoryRecord) -> dict[Any, int]:
    return {decode_name(task): shard for task, shard in record.pins}
