"""The two small files beside the database: `lock`, and `acknowledged`.

`lock` is locked through the operating system, which releases it when the process ends, however it ends.

`acknowledged` holds the number of the last acknowledged record. It is written after each commit and not forced to disk,
so it can be behind the database but never ahead of it. If it is ahead, an acknowledged commit has been lost from the
disk. SQLite does not detect that: a truncated write-ahead file looks like one that was never longer.

Used by `Host`, by its log, and by `ShardedHost`. Nothing here reads or writes the database.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from budgetron.durable.errors import AlreadyOwned
from budgetron.errors import refusal

_MARK = struct.Struct("<QI")


class DirectoryLock:
    """An exclusive lock on a directory, held from construction to `release`."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise AlreadyOwned(
                refusal("Host", "the directory", "open in one host at a time",
                        f"{str(directory)!r}, which another process has open",
                        "Stop the other process, or choose another directory.")
            ) from None  # fmt: skip

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class AcknowledgedMark:
    """The number of the last acknowledged record, in a file apart from the database."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "acknowledged", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        content = os.read(self._descriptor, _MARK.size)
        if len(content) == _MARK.size:
            number, crc = _MARK.unpack(content)
            if zlib.crc32(content[:8]) == crc:
                return int(number)
        return 0  # A new file, or one torn by a power loss, counts as nothing acknowledged.

    def write(self, number: int) -> None:
        content = struct.pack("<Q", number)
        with contextlib.suppress(OSError):  # On a full disk it stays behind the database, which is harmless.
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, content + struct.pack("<I", zlib.crc32(content)))

    def close(self) -> None:
        os.close(self._descriptor)


def _lock(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
