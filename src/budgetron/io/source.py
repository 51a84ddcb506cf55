"""Bytes from a path, standard input or an open file, unpacked where they are gzip or Zstandard, and counted.

Whether they are packed is told by the first bytes, whatever the name says. No more is read than is asked for.
"""

from __future__ import annotations

import gzip
import importlib
import io
import os
import stat
import sys
import zlib
from typing import Any

from budgetron.errors import (
    BudgetronError,
    InputError,
    InputFileMissing,
    MissingExtra,
    StorageError,
    refusal,
    refuse,
    refuse_type,
    shown,
)

WHO = "streams.read"
PIECE = 1 << 18  # bytes asked for at once
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LARGEST_WINDOW = 1 << 27  # bytes that unpacking Zstandard may hold


class Source:
    """A stream of bytes that knows its name, and how many bytes of how many were read."""

    def __init__(self, source: Any) -> None:
        self._raw = raw = _Raw(source)
        self.name = raw.name
        self.ended = False
        head = raw.head(4)
        self.is_packed = head.startswith(_GZIP) or head == _ZSTD
        self._peeked = b""
        self._beside: list[Any] = []
        self._file: Any = raw
        if head.startswith(_GZIP):
            self._file = gzip.GzipFile(fileobj=raw, mode="rb")
        elif self.is_packed:
            self._file = _zstd(raw)

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the file so far; packed ones count as packed."""
        return self._raw.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """The size of the file, where it has one."""
        return self._raw.bytes_total

    @property
    def seekable(self) -> Any:
        """The file itself, for readers that want to jump about in it; None where it is packed or a pipe."""
        return None if self.is_packed else self._raw.rewound()

    def peek(self, size: int) -> bytes:
        """The first line, or so many bytes of it, unpacked; they will be read again."""
        while len(self._peeked) < size and b"\n" not in self._peeked and (more := self._next(size)):
            self._peeked += more
        return self._peeked[:size]

    def read(self, size: int = PIECE) -> bytes:
        """The next bytes, unpacked; empty at the end."""
        peeked, self._peeked = self._peeked, b""
        return peeked or self._next(size)

    def _next(self, size: int) -> bytes:
        try:
            content: bytes = getattr(self._file, "read1", self._file.read)(size)
        except BudgetronError:
            raise
        except (EOFError, zlib.error, OSError, ValueError, RuntimeError) as error:
            self._refuse(error)
        except Exception as error:  # zstandard's own kind, which is imported only where it is used
            if type(error).__name__ not in ("ZstdError", "ArrowException"):
                raise
            self._refuse(error)
        self.ended = not content
        return content

    def progress(self, share: float) -> None:
        """For readers that jump about in the file: how much of it is done."""
        if self.bytes_total is not None:
            self._raw.bytes_read = int(share * self.bytes_total)

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno is not None:  # the disk or the network, not the content
            message = f"{self.name}: reading failed after {self.bytes_read:,} bytes: {error.strerror}."
            raise StorageError(message) from error
        what = "readable, and whole where it is packed"
        raise refuse(self.name, "the file", what, f"{error} after {self.bytes_read:,} bytes") from None

    def closing(self, file: Any) -> Any:
        """The file, which will be closed with this one."""
        self._beside.append(file)
        return file

    def close(self) -> None:
        """Close what was opened here."""
        for file in self._beside:
            file.close()
        self._raw.shut()


class _Raw(io.RawIOBase):
    """The file as it is, counted."""

    def __init__(self, source: Any) -> None:
        self.bytes_read = 0
        self._owned = False
        self._head = b""
        self._file: Any
        if isinstance(source, str | os.PathLike) and os.fspath(source) == "-":
            self.name, self._file = "standard input", sys.stdin.buffer
        elif isinstance(source, str | os.PathLike):
            self.name, self._file = os.fspath(source), self._opened(os.fspath(source))
        elif hasattr(source, "read"):
            self.name, self._file = str(getattr(source, "name", "the stream")), source
        else:
            raise refuse_type(WHO, "source", "a path, - for standard input, or a file opened in binary", shown(source))
        self.bytes_total = _size(self._file)
        seekable = getattr(self._file, "seekable", None)
        self._begin = self._file.tell() if seekable is not None and seekable() else None

    def _opened(self, path: Any) -> Any:
        try:
            file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by `shut`)
        except OSError as error:
            accepted = "a file that can be read, or - for standard input"
            kind = InputFileMissing if isinstance(error, FileNotFoundError) else InputError
            raise kind(refusal(WHO, "source", accepted, f"{path!r} ({error.strerror})")) from None
        self._owned = True
        return file

    def head(self, size: int) -> bytes:
        """The first bytes, which will be read again."""
        while len(self._head) < size:
            more = self._take(size - len(self._head))
            if not more:
                break
            self._head += more
        return self._head

    def _take(self, size: int) -> bytes:
        content = getattr(self._file, "read1", self._file.read)(size)
        if not isinstance(content, bytes):
            came = f"{type(content).__name__} from {self.name}"
            raise refuse_type(WHO, "source", "a file opened in binary", came)
        self.bytes_read += len(content)
        return content

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, at least one before the end; what a pipe has now rather than later."""
        if self._head:
            content, self._head = self._head[:size], self._head[size:]
            return content
        return self._take(size)

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def rewound(self) -> Any:
        if self._begin is not None:
            self._file.seek(self._begin)
        return None if self._begin is None else self._file

    def shut(self) -> None:
        if self._owned:
            self._file.close()


def _size(file: Any) -> int | None:
    """The size of a regular file; None for a pipe, and for what is no file of the system's."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    return (status.st_size or None) if stat.S_ISREG(status.st_mode) else None


def _zstd(raw: _Raw) -> Any:
    """A reader of Zstandard: by Python itself from 3.14 on, by zstandard, or by pyarrow."""
    try:
        return importlib.import_module("compression.zstd").ZstdFile(raw)
    except ImportError:
        pass
    try:
        unpacker = importlib.import_module("zstandard").ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        return unpacker.stream_reader(raw, read_size=PIECE, read_across_frames=True)
    except ImportError:
        pass
    try:
        return importlib.import_module("pyarrow").CompressedInputStream(raw, "zstd")
    except ImportError:
        raise MissingExtra(
            refusal(WHO, "source", "a file that this Python can unpack", f"{raw.name!r}, packed by Zstandard",
                    "pip install 'budgetron[zstd]' brings what it needs.")
        ) from None  # fmt: skip
