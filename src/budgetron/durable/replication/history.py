"""Find out which states a copy contains, and which objects make up the state at a record or at a time.

Restores, the follower and `retention` call this. Only listings and the small heads are read here, not the objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from budgetron.durable.errors import DamagedLog
from budgetron.durable.replication.objects import (
    LOG,
    Head,
    ObjectName,
    decode_object,
    epoch_folder,
    head_path,
    parse_name,
    run_folder,
)
from budgetron.durable.replication.store import Store
from budgetron.errors import InputError, error_message, input_error


@dataclass(frozen=True)
class Run:
    """A base and the segments that follow it. `missing` says whether later objects of the run are lost."""

    base: ObjectName
    segments: tuple[ObjectName, ...]
    missing: bool = False

    @property
    def last(self) -> ObjectName:
        return self.segments[-1] if self.segments else self.base


@dataclass(frozen=True)
class Plan:
    """A state of a copy: a base, the segments to learn after it, and the record at which it ends."""

    base: ObjectName
    segments: tuple[ObjectName, ...]
    position: int
    last_used: int  # the highest record number of the copy, also of other states


def epochs(store: Store) -> list[int]:
    """The epochs that have written to a copy, in ascending order."""
    return [int(name) for name in store.names("log") if name.isdecimal()]


def read_head(store: Store, epoch: int) -> Head | None:
    """How far an epoch has copied; None if it has not copied anything."""
    content = store.get(head_path(epoch))
    if content is None:
        return None
    head: Head = decode_object(content, Head, store.url, head_path(epoch))
    return head


def last_head(store: Store, before: int = 2**62) -> tuple[int, Head] | None:
    """The latest epoch that has copied something, and its head."""
    for epoch in reversed(epochs(store)):
        if epoch < before and (head := read_head(store, epoch)) is not None:
            return epoch, head
    return None


def read_run(store: Store, epoch: int, run: int, last: int) -> Run | None:
    """A run up to its object number `last`, or to its end if `last` is 0. None if its base is missing."""
    names = {}
    for text in store.names(run_folder(epoch, run)):
        if (name := parse_name(epoch, run, text)) is not None:
            names[name.number] = name
    if not last:
        # The run has ended. No other object names its last object as the previous one.
        ends = set(names) - {name.previous for name in names.values()}
        last = max(ends, key=lambda number: names[number].last, default=0)
    base = next((name for name in names.values() if name.kind != LOG), None)
    if base is None:
        return None
    chain: list[ObjectName] = []
    missing, number = False, last
    while number != base.number:
        if (name := names.get(number)) is None:
            chain, missing = [], True  # objects after a missing one cannot be used
            number = max((other for other in names if other < number), default=base.number)
        else:
            chain.append(name)
            number = name.previous
    return Run(base, tuple(reversed(chain)), missing)


def read_runs(store: Store) -> list[Run]:
    """All runs of a copy, in the order of writing.

    Objects that a former owner wrote after another one took over are left out.
    """
    runs: list[Run] = []
    newest = last_head(store)
    while newest is not None:
        epoch, head = newest
        numbers = [int(name) for name in store.names(epoch_folder(epoch)) if name.isdecimal()]
        of_epoch = [read_run(store, epoch, run, head.number if run == head.run else 0)
                    for run in numbers if run <= head.run]  # fmt: skip
        runs = [run for run in of_epoch if run is not None] + runs
        if not head.parent or (before := read_head(store, head.parent)) is None:
            break
        # The later epoch began from this object. A former owner may have written further ones, which do not count.
        before.run, before.number = head.parent_run, head.parent_number
        newest = head.parent, before
    return runs


def plan(store: Store, position: int | None = None, at: float | None = None) -> Plan:
    """Plan how to rebuild a state of a copy: the last one, or the one at a record or time (seconds since 1970)."""
    runs = read_runs(store)
    if not runs:
        raise InputError(
            error_message("restore", "COPY", "a copy that serve --replicate-to has written", repr(store.url))
        )
    last_used = max(run.last.last for run in runs)
    if position is not None:
        return _at_position(runs, position, last_used)
    if at is not None:
        return _at_time(runs, at, last_used)
    if runs[-1].missing:
        raise DamagedLog(
            f"restore: the copy {store.url!r} is incomplete: an object after record {runs[-1].last.last} is missing. "
            f"Restore the records before it with --at {runs[-1].last.last}.",
            "an object is missing",
        )
    return Plan(runs[-1].base, runs[-1].segments, runs[-1].last.last, last_used)


def _at_position(runs: list[Run], position: int, last_used: int) -> Plan:
    """The state at a record: the latest run that contains the record, or a base that can be cut back to it."""
    for run in reversed(runs):
        if run.base.last <= position <= run.last.last:
            return Plan(
                run.base, tuple(segment for segment in run.segments if segment.first <= position), position, last_used
            )
    for run in reversed(runs):  # a base can be cut back to a record before its last one
        if run.base.first <= position <= run.base.last:
            return Plan(run.base, (), position, last_used)
    spans = sorted({(run.base.first, run.last.last) for run in runs})
    accepted = "a record of the copy: " + ", ".join(f"{first} to {last}" for first, last in spans[-10:])
    raise input_error("restore", "--at", accepted, str(position), "List the points with --list.")


def _at_time(runs: list[Run], at: float, last_used: int) -> Plan:
    """The last state that had been copied at a time."""
    limit = at * 1000
    for run in reversed(runs):
        if run.base.at <= limit:
            segments = tuple(segment for segment in run.segments if segment.at <= limit)
            return Plan(run.base, segments, segments[-1].last if segments else run.base.last, last_used)
    raise input_error("restore", "--at", f"{shown_time(runs[0].base.at)} or later, because the copy begins then",
                      shown_time(round(limit)))  # fmt: skip


def shown_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
