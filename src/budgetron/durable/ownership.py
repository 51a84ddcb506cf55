"""The directory of a host, and two small files beside the database: `lock` and `acknowledged`.

Directories and files can be read only by the user who created them. The next process that locks the directory deletes
the temporary files of a killed process. They may contain copies of the model, and a copy would still have the data of a
task that the model forgets later.

`lock` is locked through the operating system, which releases it when the process ends for any reason.

`acknowledged` holds the number of the last record that was committed. It is written after each commit and not forced to
disk, so after a crash it may be behind the database. If it is ahead of the database, the disk has lost a commit for
which fsync had succeeded, or an older database was put in place by hand. SQLite alone cannot detect such a loss,
because its write-ahead file is also valid when its end is missing.

Used by hosts, logs, repairs and copies. Nothing here reads or writes the database.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import struct
import zlib
from pathlib import Path

from budgetron.durable.errors import AlreadyOwned
from budgetron.errors import StorageError

_MARK = struct.Struct("<QI")  # the number and its CRC-32
MARK = "acknowledged"
# Linux and macOS report a lock of another process as EWOULDBLOCK, and Windows and some network file systems as EACCES.
_LOCKED_BY_ANOTHER = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
TEMPORARY = ".budgetron-"  # the first part of the names of temporary files and folders


def make_private(directory: Path) -> None:
    """Create a directory that only its owner may enter, with its parents, unless it exists."""
    for folder in [*reversed(directory.parents), directory]:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def remove_leftovers(directory: Path) -> None:
    """Delete the temporary files that a killed process left. Only the owner of the directory may call this."""
    # `Log.copy_to` adds a dot to the name of a temporary file while it copies. The last two prefixes are those of
    # earlier versions.
    for prefix in (TEMPORARY, f".{TEMPORARY}", ".backup-", "..backup-"):
        for path in directory.glob(f"{prefix}*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


class DirectoryLock:
    """An exclusive lock on a directory, held from construction to `release`."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            if error.errno not in _LOCKED_BY_ANOTHER:
                raise StorageError(
                    f"Host: the directory must be on a file system with file locks (flock); {str(directory)!r} cannot "
                    f"be locked: {error.strerror}. Choose a directory on a local disk, or start the lock service of "
                    "the network file system."
                ) from error
            raise AlreadyOwned(
                f"Host: the directory {str(directory)!r} is open in another process, or in another host of this "
                "process. Stop or close that one, or choose another directory."
            ) from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class AcknowledgedMark:
    """The number of the last committed record, in a separate file."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        content = os.read(self._descriptor, _MARK.size)
        if len(content) == _MARK.size:
            number, crc = _MARK.unpack(content)
            if zlib.crc32(content[:8]) == crc:
                return int(number)
        return 0  # A new file, or one torn by a power loss, says that nothing was acknowledged.

    def write(self, number: int) -> None:
        content = struct.pack("<Q", number)
        with contextlib.suppress(OSError):  # If the write fails, the mark stays behind the database, which is harmless.
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
