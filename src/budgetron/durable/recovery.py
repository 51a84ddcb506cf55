"""What a host finds on opening its directory: the newest good snapshot, and the log after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgetron.durable import blocks
from budgetron.durable.answers import flat
from budgetron.durable.claim import Mark
from budgetron.durable.models import Kept, kept_of
from budgetron.durable.refusals import DamagedLog, damaged, speaking_of
from budgetron.durable.store import Store
from budgetron.errors import InputError, ModelFileError, refuse


@dataclass
class Recovery:
    """The state that was found, and how."""

    kept: Kept
    snapshots: list[int]  # record numbers, the newest first
    position: int = 0
    replayed: int = 0  # blocks
    replayed_examples: int = 0
    refused: list[int] = field(default_factory=list)  # records that were logged, and refused by the model
    answers: dict[int, bytes] = field(default_factory=dict)
    lost: str = ""  # what was given up, where that was accepted


def recovered(store: Store, mark: Mark, make_model: Callable[[], Any] | None, accept_loss: bool) -> Recovery:
    """The model as it was when the last commit was acknowledged."""
    acknowledged, position = mark.read(), store.position
    found = _from_snapshot(store, make_model, accept_loss)
    try:
        _replay(store, found)
        if acknowledged > position:
            raise damaged(store.path, f"it ends at record {position}, but record {acknowledged} was acknowledged")
    except DamagedLog as damage:
        if not accept_loss:
            raise
        found.lost = str(damage)
        with store.writing():
            store.remove_after(found.position)
            store.drop_snapshots_after(found.position)
            store.set_position(max(acknowledged, position))  # a number is never given twice
    found.position = max(acknowledged, position)
    return found


def copied(directory: Path) -> Kept:
    """The model as it is in a directory now, in memory: whoever has the directory is not disturbed."""
    with speaking_of(directory / "acknowledged"):
        mark = Mark(directory)
    try:
        store = Store(directory)
        try:
            return recovered(store, mark, None, accept_loss=False).kept
        finally:
            store.close()
    finally:
        mark.close()


def _from_snapshot(store: Store, make_model: Callable[[], Any] | None, accept_loss: bool) -> Recovery:
    numbers = store.snapshots()
    why = ""
    for place, number in enumerate(numbers):
        try:
            kept = kept_of(store.snapshot(number))
        except ModelFileError as error:
            why = why or str(error)
            continue
        return Recovery(kept, numbers[place:], number)
    if numbers and not accept_loss:
        raise damaged(store.path, f"no snapshot is good. {why}")
    if make_model is None:
        raise refuse("Host", "make_model or model", "given for a new directory", "neither", "Say what to begin with.")
    return Recovery(Kept(make_model()), [])


def _replay(store: Store, found: Recovery) -> None:
    """Learn the log again. A refusal is right only among the records of the last commit: any earlier one is damage."""
    refused = found.refused
    refused_in, why = 0, ""
    for record in store.records_after(found.position):
        if refused and record.batch != refused_in:
            raise damaged(store.path, f"record {refused[0]} was learned once and is refused now ({why})")
        try:
            margins = found.kept.learn(blocks.read(record.block))
        except InputError as error:
            refused.append(record.number)
            refused_in, why = record.batch, str(error)
            continue
        found.position = record.number
        found.replayed += 1
        found.replayed_examples += len(margins)
        if record.keyed:
            found.answers[record.number] = flat(margins)
