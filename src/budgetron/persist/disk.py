"""Bytes to a file and back: the whole file or the old one, and never more than was allowed.

A file is written beside its final place, forced to the disk, and moved over it in one step; then the folder is
forced to the disk too. Whatever fails on the way, the old file is untouched and nothing else is left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from budgetron.errors import refuse
from budgetron.persist.refusals import lie

_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """The file at `path` (through links) now has this content, or nothing has changed."""
    target = Path(os.path.realpath(os.fspath(path)))
    old = _mode_of(target)
    beside = target.parent / f".budgetron-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(beside, _WRITE, 0o666)  # less what the umask takes, as for any new file
    try:
        with open(descriptor, "wb") as file:
            if old is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), old)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        raise
    _sync_folder(target.parent)


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    descriptor = os.open(os.fspath(path), _READ)  # without waiting, should it be a pipe
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise lie("path", "that of a regular file", f"{os.fspath(path)!r}, which is none")
        with open(descriptor, "rb", closefd=False) as file:
            content = b"" if status.st_size > limit else file.read(limit + 1)  # it may grow meanwhile
        if status.st_size > limit or len(content) > limit:
            raise lie("the file", f"of at most {limit} bytes", f"{max(status.st_size, len(content))} bytes",
                      "Where you trust the file and have the memory, raise max_bytes.")
        return content
    finally:
        os.close(descriptor)


def _mode_of(target: Path) -> int | None:
    """The permissions of the file that is there, if one is."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise refuse("save", "path", "that of a regular file", f"{str(target)!r}, which is none")
    return stat.S_IMODE(mode)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(descriptor)
