"""Turn a state of a copy into the database of a host, and cut a database back to an earlier record.

`restore`, `verify` and `Follower` call these functions on a temporary folder. `restore` and `Follower` then put the
finished database in place.
"""

from __future__ import annotations

from pathlib import Path

from budgetron.durable.errors import damaged_log
from budgetron.durable.ownership import make_private
from budgetron.durable.replication.following import FollowingHost
from budgetron.durable.replication.history import Plan
from budgetron.durable.replication.objects import Base, Segment, decode_object, decompress
from budgetron.durable.replication.store import Store
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.sqlite_file import create_private
from budgetron.errors import input_error


def rebuild(store: Store, plan: Plan, folder: Path) -> None:
    """Write the database of a planned state into a folder. Every object is checked against its checksum."""
    make_private(folder)
    base: Base = decode_object(store.get(plan.base.path), Base, store.url, plan.base.path)
    create_private(folder / NAME)
    (folder / NAME).write_bytes(decompress(base.database))
    if plan.position < plan.base.last_record:
        cut(folder, plan.position)
    if not plan.segments:
        return
    with FollowingHost.open(folder) as host:
        for name in plan.segments:
            host.follow(read_segment(store, name.path), plan.position)
        if host.position != plan.position:
            what = f"the copy ends at record {host.position}, but should end at {plan.position}"
            raise damaged_log(folder / NAME, what)


def read_segment(store: Store, path: str) -> Segment:
    segment: Segment = decode_object(store.get(path), Segment, store.url, path)
    return segment


def cut(folder: Path, position: int) -> None:
    """Remove from a database what came after a record: later records, their corrections, snapshots and keys."""
    log = Log(folder)
    try:
        if position == log.position:
            return
        snapshots = [number for number in log.snapshots if number <= position]
        if not snapshots or position > log.position:
            oldest = min(log.snapshots, default=0)
            accepted = f"a record of the log, {oldest} to {log.position}"
            remedy = "" if position > log.position else (
                "Earlier records are part of a snapshot. A copy (serve --replicate-to) has earlier states."
            )
            raise input_error("restore", "--at", accepted, str(position), remedy)
        db = log.db
        with db.writing():
            for table, column in (("log", "number"), ("snapshot", "number"), ("answer", "number"),
                                  ("stream_block", "number"), ("correction", "position")):  # fmt: skip
                db.execute(f"DELETE FROM {table} WHERE {column} > ?", (position,))
            newest, previous = [*snapshots, None][:2]
            log.set_owner("position = ?, snapshot = ?, previous = ?", position, newest, previous)
    finally:
        log.close()
