"""Recover a model from its directory: load the newest intact snapshot and replay the log after it.

`Host.open` calls `recover`, which writes nothing. `load_copy` reads a directory that another process may own.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron.durable import blocks
from budgetron.durable.errors import DamagedLog, damaged_log
from budgetron.durable.hosted_model import HostedModel, hosted_model_from
from budgetron.durable.repairs.staging import copy_host, reported_as
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import InputError, ModelFileError, input_error

_logger = logging.getLogger(__name__)


@dataclass
class Recovery:
    """The recovered model, and how it was recovered."""

    hosted: HostedModel
    position: int = 0  # the number of the last record that was read
    snapshot: int = 0  # the record number of the snapshot that was loaded; 0: none
    rejected: int = 0  # how many records of the last commit the model rejected in the replay
    replayed_examples: int = 0  # how many examples of the log were learned again
    unusable: str = ""  # which newer snapshot could not be loaded, and why


def recover(log: Log, snapshots: Snapshots, make_model: Callable[[], Any] | None) -> Recovery:
    """Recover the model as it was after the last commit that is on disk, whether it was acknowledged or not."""
    recovery = from_snapshot(log, snapshots, make_model)
    replay(log, recovery)
    log.check_acknowledged()
    recovery.position = log.position
    recovery.rejected = len(log.unwritten.rejected)
    snapshots.count(recovery.replayed_examples)
    return recovery


def load_copy(directory: Path) -> HostedModel:
    """Load the current model of a directory into memory, without disturbing the process that owns it.

    The files are copied before they are opened. Opening the database of an earlier format migrates it, and a commit of
    the owner between two reads would look like a lost record.
    """
    with tempfile.TemporaryDirectory(prefix="budgetron-") as name, reported_as(Path(name), directory):
        copy_host(directory, Path(name))
        log = Log(Path(name))
        try:
            return recover(log, Snapshots(log), None).hosted
        finally:
            log.close()


def from_snapshot(log: Log, snapshots: Snapshots, make_model: Callable[[], Any] | None) -> Recovery:
    """Load the newest intact snapshot. If there has been no snapshot yet, create the model with `make_model`."""
    numbers, unusable = snapshots.numbers, ""
    for i, number in enumerate(numbers):
        content = b""
        try:
            content = snapshots.read(number)
            hosted = hosted_model_from(content)
        except (ModelFileError, DamagedLog) as error:
            reason = str(error) if content else "it is missing"
            unusable = unusable or f"snapshot {number}: {reason}"
            continue
        if unusable:
            _logger.warning("%s: %s Recovery starts from snapshot %d and learns the log after it again.",
                            log.directory, unusable.rstrip(".") + ".", number)  # fmt: skip
            snapshots.numbers = log.snapshots = numbers[i:]
        return Recovery(hosted, number, snapshot=number, unusable=unusable)
    if numbers:
        raise damaged_log(log.path, f"no snapshot is intact ({unusable.rstrip('.')})")
    if make_model is None:
        raise input_error("Host", "make_model or model", "given for a new directory", "neither",
                          "Pass the model for a new directory.")  # fmt: skip
    return Recovery(HostedModel(make_model()))


def replay(log: Log, recovery: Recovery) -> None:
    """Learn the records that came after the snapshot.

    Every commit also deletes the bytes of records that the model rejected before that commit. So only records of the
    last commit may be rejected here. If the model rejects a record of an earlier commit, the log is damaged.
    """
    rejected = log.unwritten.rejected
    rejected_batch, reason = 0, ""  # the commit of the rejected records, and why the last of them was rejected
    for record in log.records_after(recovery.position):
        if rejected and record.batch != rejected_batch:
            raise damaged_log(log.path, f"record {rejected[0]} was learned before, but is rejected now ({reason})")
        recovery.position = record.number
        if record.block is None:
            continue
        try:
            margins = recovery.hosted.learn(blocks.decode_block(record.block))
        except InputError as error:
            rejected.append(record.number)
            rejected_batch, reason = record.batch, str(error)
            continue
        recovery.replayed_examples += len(margins)
        if record.answer_missing:
            log.unwritten.answers[record.number] = blocks.margins_to_bytes(margins)
