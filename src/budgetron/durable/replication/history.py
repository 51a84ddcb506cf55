"""Find out which states a copy contains, and which objects make up the state at a record or at a time.

`restore`, `verify`, the follower, the replicator and `retention` call this. Only listings and the small heads are read
here, not the large objects. `objects` explains the terms epoch, run, base, segment and head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from budgetron.durable.errors import DamagedLog
from budgetron.durable.replication.objects import (
    BASE,
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
from budgetron.errors import input_error


@dataclass(frozen=True)
class Run:
    """A base and the segments that follow it. `missing` says whether objects after these segments are lost."""

    base: ObjectName
    segments: tuple[ObjectName, ...]
    missing: bool = False

    @property
    def last_object(self) -> ObjectName:
        return self.segments[-1] if self.segments else self.base


@dataclass(frozen=True)
class Plan:
    """A state of a copy: a base, the segments to learn after it, and the record at which it ends."""

    base: ObjectName
    segments: tuple[ObjectName, ...]
    position: int
    last_used: int  # the highest record number in the whole copy, which may be after `position`


def epochs(store: Store) -> list[int]:
    """The numbers of the epochs that have written to a copy, in ascending order."""
    return [int(name) for name in store.names("log") if name.isdecimal()]


def read_head(store: Store, epoch: int) -> Head | None:
    """How far an epoch has copied; None if it has not copied anything, or `retention` has deleted its head."""
    content = store.get(head_path(epoch))
    if content is None:
        return None
    head: Head = decode_object(content, Head, store.url, head_path(epoch))
    return head


def last_head(store: Store, before: int | None = None) -> tuple[int, Head] | None:
    """The latest epoch that has a head, and this head. With `before`, only earlier epochs than `before` count."""
    for epoch in reversed(epochs(store)):
        if (before is None or epoch < before) and (head := read_head(store, epoch)) is not None:
            return epoch, head
    return None


def read_run(store: Store, epoch: int, run: int, last_number: int) -> Run | None:
    """A run up to the object with this number, or to its end if the number is 0. None if its base is missing."""
    names = {}
    for text in store.names(run_folder(epoch, run)):
        if (name := parse_name(epoch, run, text)) is not None:
            names[name.number] = name
    if not last_number:
        # Each object names its previous object. No object names the last object of the run. Objects of failed writes
        # are not named either, but a later object contains their records again. So among the objects that are not
        # named, the last one has the highest record.
        ends = set(names) - {name.previous for name in names.values()}
        last_number = max(ends, key=lambda number: names[number].last_record, default=0)
    base = next((name for name in names.values() if name.kind != LOG), None)
    if base is None:
        return None
    chain: list[ObjectName] = []
    missing, number = False, last_number
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

    Objects that a former owner wrote after another owner took over are left out, and so are runs whose base is lost.
    """
    runs: list[Run | None] = []  # None for a run whose base is lost
    current = last_head(store)  # the loop goes from the latest epoch back to the epoch that it continues, and so on
    while current is not None:
        epoch, head = current
        numbers = [int(name) for name in store.names(epoch_folder(epoch)) if name.isdecimal()]
        # A folder without objects belongs to a failed write or to a deleted run, so no object is lost there.
        earlier = [run for run in sorted(numbers) if run < head.run and store.names(run_folder(epoch, run))]
        of_epoch = [read_run(store, epoch, run, 0) for run in earlier]
        runs = [*of_epoch, read_run(store, epoch, head.run, head.number), *runs]
        if not head.parent or (parent := read_head(store, head.parent)) is None:
            break
        # Read the parent epoch only up to the object that the later epoch continues. The parent's own head may be
        # later, because its owner may have written more objects after another process had taken over.
        parent.run, parent.number = head.parent_run, head.parent_number
        current = head.parent, parent
    for n, (run, after) in enumerate(pairwise(runs)):
        if run is not None and (after is None or _leaves_a_gap(run, after)):
            runs[n] = replace(run, missing=True)
    return [run for run in runs if run is not None]


def _leaves_a_gap(run: Run, after: Run) -> bool:
    """Whether the last segments of a run are lost: its records do not lead to the next base, although they should.

    A base of the kind START may begin anywhere, so before such a base, lost segments at the end are not noticed.
    """
    return after.base.kind == BASE and run.last_object.last_record < after.base.last_record


def plan(store: Store, position: int | None = None, at: float | None = None) -> Plan:
    """Plan how to rebuild a state of a copy: the last one, or the one at a record or time (seconds since 1970)."""
    runs = read_runs(store)
    if not runs:
        if last_head(store) is not None:
            raise DamagedLog(f"copy: {store.url!r} is incomplete: its database is missing. Restore another copy.",
                             "an object is missing")  # fmt: skip
        raise input_error("copy", "its folder or URL", "one to which serve --replicate-to has copied labels",
                          repr(store.url), "A copy begins when the owner has learned its first labels.")  # fmt: skip
    last_used = max(run.last_object.last_record for run in runs)
    if position is not None:
        return _at_position(runs, position, last_used)
    if at is not None:
        return _at_time(store, runs, at, last_used)
    latest = runs[-1]
    if latest.missing:
        raise _incomplete_error(store, latest)
    return Plan(latest.base, latest.segments, latest.last_object.last_record, last_used)


def _at_position(runs: list[Run], position: int, last_used: int) -> Plan:
    """The state at a record: the latest run that contains the record, or a base that can be cut back to it."""
    for run in reversed(runs):
        if run.base.last_record <= position <= run.last_object.last_record:
            segments = tuple(segment for segment in run.segments if segment.first_record <= position)
            return Plan(run.base, segments, position, last_used)
    for run in reversed(runs):
        if run.base.first_record <= position <= run.base.last_record:
            return Plan(run.base, (), position, last_used)
    spans = sorted({(run.base.first_record, run.last_object.last_record) for run in runs})
    accepted = "a record of the copy: " + ", ".join(f"{first} to {last}" for first, last in spans[-10:])
    raise input_error("restore", "--at", accepted, str(position), "List the points with --list.")


def _at_time(store: Store, runs: list[Run], at: float, last_used: int) -> Plan:
    """The last state that had been copied by the time `at`. Raises `DamagedLog` if it is known to be incomplete."""
    limit = at * 1000
    for run in reversed(runs):
        if run.base.at <= limit:
            segments = tuple(segment for segment in run.segments if segment.at <= limit)
            if run.missing and segments == run.segments:
                raise _incomplete_error(store, run)
            return Plan(run.base, segments, segments[-1].last_record if segments else run.base.last_record, last_used)
    raise input_error("restore", "--at", f"{shown_time(runs[0].base.at)} or later, because the copy begins then",
                      shown_time(round(limit)))  # fmt: skip


def _incomplete_error(store: Store, run: Run) -> DamagedLog:
    last = run.last_object.last_record
    return DamagedLog(
        f"copy: {store.url!r} is incomplete: an object after record {last} is missing. Restore the records before it: "
        f"budgetron restore COPY DIRECTORY --at {last}",
        "an object is missing",
    )


def shown_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
