"""Who has the directory, and how far it has acknowledged.

The lock is one of the operating system: it goes with its process, however that ends. The mark is a small file beside
the database, written after each commit and not forced to disk: it can only be behind the database. Should it ever be
ahead, a commit that was acknowledged has vanished from the disk, which SQLite by itself would pass over in silence.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from budgetron.durable.refusals import AlreadyOwned
from budgetron.errors import refusal

_MARK = struct.Struct("<QI")


class Lock:
    """Held from `__init__` to `release`."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise AlreadyOwned(
                refusal("Host", "the directory", "open in one host at a time", f"{str(directory)!r}, which another has",
                        "Stop the other, or give this one a directory of its own.")
            ) from None  # fmt: skip

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Mark:
    """The last number that was acknowledged, as far as is known without the database."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "acknowledged", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        content = os.read(self._descriptor, _MARK.size)
        if len(content) == _MARK.size:
            number, crc = _MARK.unpack(content)
            if zlib.crc32(content[:8]) == crc:
                return int(number)
        return 0  # new, or half written when the power went: then nothing is claimed

    def write(self, number: int) -> None:
        content = struct.pack("<Q", number)
        with contextlib.suppress(OSError):  # a full disk: it stays behind, and claims less
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
