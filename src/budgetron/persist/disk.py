"""Atomic replacement of a file, and reading of a file up to a limit.

The content is written to a temporary file in the same folder, synced, and renamed over the target; then the folder is
synced too, since the rename is a change of the folder. If the rename or a step before it fails, the old file is
untouched and the temporary file is removed. Used for model files, API keys, reports, and the folders of durable and
sharded models.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from budgetron.errors import input_error
from budgetron.file_errors import invalid

_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the content of the file at `path` atomically. Symbolic links are followed."""
    target = Path(os.path.realpath(os.fspath(path)))
    old_mode = _mode_of(target)
    temporary = target.parent / f".budgetron-{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(temporary, _WRITE, 0o666)  # the umask applies, as for any new file
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with open(descriptor, "wb") as file:
            if old_mode is not None and hasattr(os, "fchmod"):  # keep the permissions of the file that is replaced
                os.fchmod(file.fileno(), old_mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # also on Ctrl-C, so that no temporary file stays behind
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(target.parent)


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes."""
    # `_READ` is non-blocking, because opening a named pipe would otherwise wait for a writer.
    descriptor = os.open(os.fspath(path), _READ)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise invalid("path", "a regular file", f"{os.fspath(path)!r}, a folder, pipe or device")
        with open(descriptor, "rb", closefd=False) as file:
            content = b"" if status.st_size > limit else file.read(limit + 1)  # the file may grow while it is read
        if status.st_size > limit or len(content) > limit:
            raise invalid(
                "the file",
                f"of at most {limit} bytes",
                f"{max(status.st_size, len(content))} bytes",
                "If you trust the file and have the memory, raise max_bytes.",
            )
        return content
    finally:
        os.close(descriptor)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of an existing file; None if there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise input_error("save", "path", "a regular file", f"{str(target)!r}, a folder, pipe or device")
    return stat.S_IMODE(mode)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)
