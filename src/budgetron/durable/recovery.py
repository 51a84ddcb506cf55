"""Recover a model from its directory: load the newest intact snapshot and replay the log after it.

`Host.open` calls `recover`; `load_copy` reads a directory that another process owns. Recovery writes nothing unless
`accept_loss` allows it to discard damaged records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgetron.durable import blocks
from budgetron.durable.answers import margins_to_bytes
from budgetron.durable.errors import DamagedLog, damaged_log, storage_errors
from budgetron.durable.hosted_model import HostedModel, hosted_model_from
from budgetron.durable.ownership import AcknowledgedMark
from budgetron.durable.store import Store
from budgetron.errors import InputError, ModelFileError, refuse


@dataclass
class Recovery:
    """The recovered model, and how it was recovered."""

    hosted: HostedModel
    snapshots: list[int]  # record numbers, the newest first
    position: int = 0
    replayed: int = 0  # blocks of the log that were learned again
    replayed_examples: int = 0
    refused: list[int] = field(default_factory=list)  # records that are in the log but were rejected by the model
    answers: dict[int, bytes] = field(default_factory=dict)  # margins of replayed records that have a key
    lost: str = ""  # what was discarded, if accept_loss was given


def recover(store: Store, mark: AcknowledgedMark, make_model: Callable[[], Any] | None, accept_loss: bool) -> Recovery:
    """Recover the model as it was when the last commit was acknowledged."""
    acknowledged, position = mark.read(), store.position
    found = _from_snapshot(store, make_model, accept_loss)
    try:
        _replay(store, found)
        if acknowledged > position:
            raise damaged_log(store.path, f"it ends at record {position}, but record {acknowledged} was acknowledged")
    except DamagedLog as damage:
        if not accept_loss:
            raise
        found.lost = str(damage)
        with store.writing():
            store.remove_after(found.position)
            store.drop_snapshots_after(found.position)
            store.set_position(max(acknowledged, position))  # a record number is never used twice
    found.position = max(acknowledged, position)
    return found


def load_copy(directory: Path) -> HostedModel:
    """Load the current model of a directory into memory, without disturbing the process that owns it."""
    with storage_errors(directory / "acknowledged"):
        mark = AcknowledgedMark(directory)
    try:
        store = Store(directory)
        try:
            return recover(store, mark, None, accept_loss=False).hosted
        finally:
            store.close()
    finally:
        mark.close()


def _from_snapshot(store: Store, make_model: Callable[[], Any] | None, accept_loss: bool) -> Recovery:
    numbers = store.snapshots()
    why = ""
    for place, number in enumerate(numbers):
        try:
            hosted = hosted_model_from(store.snapshot(number))
        except ModelFileError as error:
            why = why or str(error)
            continue
        return Recovery(hosted, numbers[place:], number)
    if numbers and not accept_loss:
        raise damaged_log(store.path, f"no snapshot is intact. {why}")
    if make_model is None:
        raise refuse("Host", "make_model or model", "given for a new directory", "neither",
                     "Pass the model that a new directory starts with.")  # fmt: skip
    return Recovery(HostedModel(make_model()), [])


def _replay(store: Store, found: Recovery) -> None:
    """Learn the records after the snapshot again.

    The model may reject records of the last commit: the process ended before it could delete them from the log.
    Rejected records of earlier commits have been deleted, so if the model rejects one of those, the log is damaged.
    """
    refused = found.refused
    refused_in, why = 0, ""
    for record in store.records_after(found.position):
        if refused and record.batch != refused_in:
            raise damaged_log(store.path, f"record {refused[0]} was learned once and is refused now ({why})")
        try:
            margins = found.hosted.learn(blocks.decode_block(record.block))
        except InputError as error:
            refused.append(record.number)
            refused_in, why = record.batch, str(error)
            continue
        found.position = record.number
        found.replayed += 1
        found.replayed_examples += len(margins)
        if record.keyed:
            found.answers[record.number] = margins_to_bytes(margins)
