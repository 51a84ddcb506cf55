"""Recover a model from its directory: load the newest intact snapshot and replay the log after it.

`Host.open` calls `recover`; `load_copy` reads a directory that another process owns. Recovery writes nothing unless
`accept_loss` allows it to discard damaged records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron.durable import blocks
from budgetron.durable.errors import DamagedLog, damaged_log
from budgetron.durable.hosted_model import HostedModel, hosted_model_from
from budgetron.durable.log import Log
from budgetron.durable.snapshots import Snapshots
from budgetron.errors import InputError, ModelFileError, refuse


@dataclass
class Recovery:
    """The recovered model, and how it was recovered."""

    hosted: HostedModel
    position: int = 0  # of the last record that the model contains
    snapshot: int = 0  # the record number of the snapshot that was loaded; 0: none
    rejected: int = 0  # records that are in the log but were rejected by the model
    replayed: int = 0  # blocks of the log that were learned again
    replayed_examples: int = 0
    lost: str = ""  # what was discarded, if accept_loss was given


def recover(log: Log, snapshots: Snapshots, make_model: Callable[[], Any] | None, accept_loss: bool) -> Recovery:
    """Recover the model as it was when the last commit was acknowledged."""
    acknowledged, position = log.mark.read(), log.position
    found = _from_snapshot(log, snapshots, make_model, accept_loss)
    try:
        _replay(log, found)
        if acknowledged > position:
            raise damaged_log(log.path, f"it ends at record {position}, but record {acknowledged} was acknowledged")
    except DamagedLog as damage:
        if not accept_loss:
            raise
        found.lost = str(damage)
        with log.writing():
            log.remove_after(found.position)
            snapshots.drop_after(found.position)
            log.set_position(max(acknowledged, position))  # a record number is never used twice
    log.position = found.position = max(acknowledged, position)
    found.rejected = len(log.unwritten.refused)
    snapshots.count(found.replayed_examples)
    return found


def load_copy(directory: Path) -> HostedModel:
    """Load the current model of a directory into memory, without disturbing the process that owns it."""
    log = Log(directory)
    try:
        return recover(log, Snapshots(log), None, accept_loss=False).hosted
    finally:
        log.close()


def _from_snapshot(
    log: Log, snapshots: Snapshots, make_model: Callable[[], Any] | None, accept_loss: bool
) -> Recovery:
    numbers = snapshots.numbers
    why = ""
    for place, number in enumerate(numbers):
        try:
            hosted = hosted_model_from(snapshots.read(number))
        except ModelFileError as error:
            why = why or str(error)
            continue
        snapshots.numbers = numbers[place:]
        return Recovery(hosted, number, snapshot=number)
    if numbers and not accept_loss:
        raise damaged_log(log.path, f"no snapshot is intact. {why}")
    snapshots.numbers = []
    if make_model is None:
        raise refuse("Host", "make_model or model", "given for a new directory", "neither",
                     "Pass the model that a new directory starts with.")  # fmt: skip
    return Recovery(HostedModel(make_model()))


def _replay(log: Log, found: Recovery) -> None:
    """Learn the records after the snapshot again.

    The model may reject records of the last commit: the process ended before it could delete them from the log.
    Rejected records of earlier commits have been deleted, so if the model rejects one of those, the log is damaged.
    """
    refused = log.unwritten.refused
    refused_in, why = 0, ""
    for record in log.records_after(found.position):
        if refused and record.batch != refused_in:
            raise damaged_log(log.path, f"record {refused[0]} was learned once and is rejected now ({why})")
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
            log.unwritten.answers[record.number] = blocks.margins_to_bytes(margins)
