"""The objects in `log/` of a copy: their names, and their bytes, which end with a SHA-256.

An epoch is the number of an owner of the copy. Its head says how far this owner has copied. A run is a folder with a
base, which is a copy of the database, and the segments of the log that follow it. To find a point in time, a reader
needs only the heads of the epochs and the names of the objects:

    log/00000003/00000002/00000007-00000006-log-000000000501-000000000520-1700000000000
        epoch    run      number   previous kind  first      last         time of the copy, in milliseconds since 1970

Objects are numbered within their run. A number is used only once in a run, even if the write failed, because the object
may have been stored nevertheless. Each name contains the number of the previous object. So a reader can skip the
objects of failed writes, and notices when an object is missing. The last objects of a run are missed if the head says
that the run ends later, or if a base of the kind "base" follows and begins later.

A base has the kind "start" if the records of the previous run do not lead to it. This is so for the first base of an
epoch, after a correction or a restore, if writing the previous base failed, and if the log was trimmed before it was
copied. Other bases have the kind "base". In the name of a base, `first` is the number of its older snapshot, the
earliest state that the base can be cut back to. The byte layout is a file format: it must not change without a new
version.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Any

import msgspec

from budgetron.durable.errors import DamagedLog

VERSION = 1
START, BASE, LOG = "start", "base", "log"
_NAME = re.compile(r"(\d{8})-(\d{8})-(start|base|log)-(\d{12})-(\d{12})-(\d{13})")


@dataclass(frozen=True)
class ObjectName:
    """The parts of an object's path."""

    epoch: int
    run: int
    number: int
    previous: int  # the number of the object before it in the run; 0 for the base
    kind: str
    first_record: int
    last_record: int
    at: int  # milliseconds since 1970

    @property
    def path(self) -> str:
        name = f"{self.number:08d}-{self.previous:08d}-{self.kind}"
        name += f"-{self.first_record:012d}-{self.last_record:012d}-{self.at:013d}"
        return f"{run_folder(self.epoch, self.run)}/{name}"


def epoch_folder(epoch: int) -> str:
    return f"log/{epoch:08d}"


def run_folder(epoch: int, run: int) -> str:
    return f"{epoch_folder(epoch)}/{run:08d}"


def head_path(epoch: int) -> str:
    return f"{epoch_folder(epoch)}/head"


def parse_name(epoch: int, run: int, name: str) -> ObjectName | None:
    """Parse the name of an object of a run; None for all other names."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number, previous, kind, first, last, at = match.groups()
    return ObjectName(epoch, run, int(number), int(previous), kind, int(first), int(last), int(at))


class Base(msgspec.Struct, array_like=True):
    """A compressed database."""

    version: int
    database: bytes


class _ArrayVersion(msgspec.Struct, array_like=True):
    """The first element of an object that is an array; the others are skipped."""

    version: int


class _MapVersion(msgspec.Struct):
    """The version of an object that is a map; its other fields are skipped."""

    version: int


class CopiedRecord(msgspec.Struct, array_like=True):
    """A record of the log with its idempotency key.

    `block` is None if the model rejected the record, or if all its examples were withdrawn.
    """

    number: int
    block: bytes | None
    key: str | None = None
    digest: bytes = b""  # the hash of the request, if the key names a single request
    # For a key that names a stream: the first position in the stream, the last, all positions if they are not
    # consecutive, and a digest per row.
    first: int | None = None
    last: int = 0
    places: bytes | None = None
    digests: bytes | None = None


class Segment(msgspec.Struct, array_like=True):
    """Consecutive records of the log.

    `rejected` has the numbers of earlier records that the model rejected. When these records were copied, the log did
    not say so yet. Readers do not need the numbers, because their model rejects the same records.
    """

    version: int
    rejected: list[int]
    records: list[CopiedRecord]


class Head(msgspec.Struct):
    """Names the last object that an epoch has written, and its parent.

    The parent is the object of an earlier epoch that this epoch continues.
    """

    version: int
    run: int
    number: int  # the number of the last object of that run
    position: int  # the last record of the copy
    at: int  # milliseconds since 1970
    owner: str = ""  # host name and process id, for diagnosis
    parent: int = 0  # the epoch that this epoch continues; 0: none
    parent_run: int = 0
    parent_number: int = 0


def encode_object(value: msgspec.Struct) -> bytes:
    content = msgspec.msgpack.encode(value)
    return content + hashlib.sha256(content).digest()


def decode_object(content: bytes | None, kind: type[Any], url: str, name: str) -> Any:
    """Decode an object. Raises `DamagedLog` if it is missing, does not match its checksum, or has another version."""
    what, remedy = "it is missing", "Restore an earlier point: budgetron restore COPY DIRECTORY --at TIME"
    if content is not None:
        what = "it does not match its checksum"
        if hashlib.sha256(content[:-32]).digest() == content[-32:]:
            # Another version may have other fields, so the version is decoded before them.
            header: type[Any] = _ArrayVersion if kind.__struct_config__.array_like else _MapVersion
            version = msgspec.msgpack.decode(content[:-32], type=header).version
            if version == VERSION:
                return msgspec.msgpack.decode(content[:-32], type=kind)
            what, remedy = f"its version is {version}, and this budgetron reads {VERSION}", "Update budgetron."
    damage = f"{url}/{name}: {what}"
    raise DamagedLog(f"copy: an object cannot be used: {damage}. {remedy}", damage)


def compress(database: bytes) -> bytes:
    return zlib.compress(database, 1)


def decompress(content: bytes) -> bytes:
    return zlib.decompress(content)
