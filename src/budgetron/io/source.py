"""Read bytes from a path, standard input or an open file; decompress gzip and Zstandard, and count the bytes read.

Compression is detected by the first bytes and not by the name. Every reader gets its bytes from here. A read returns
the bytes that are there and does not wait for more, so that rows from a pipe are available as soon as they arrive.
"""

from __future__ import annotations

import codecs
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
    input_error,
    input_type_error,
    shown,
)

WHO = "io.read"
READ_SIZE = 1 << 18  # bytes per read
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAX_ZSTD_WINDOW = 1 << 27  # bytes of memory; without a limit a hostile file could request gigabytes


class Source:
    """A stream of decompressed bytes with a name and a progress count."""

    def __init__(self, source: Any, encoding: str = "utf-8") -> None:
        self._encoding, self._decoder = encoding, _decoder(encoding)
        self._raw = raw = _Raw(source)
        self.name = raw.name
        self.ended = False
        head = raw.head(4)
        self.is_compressed = head.startswith(_GZIP) or head == _ZSTD
        self._peeked = b""
        self._to_close: list[Any] = []
        self._file: Any = raw
        if head.startswith(_GZIP):
            self._file = gzip.GzipFile(fileobj=raw, mode="rb")
        elif self.is_compressed:
            self._file = _zstd(raw)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far, counted as stored (compressed)."""
        return self._raw.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """The size of the file; None if it is unknown, as for a pipe."""
        return self._raw.bytes_total

    @property
    def random_access_file(self) -> Any:
        """The file itself, for readers that need to seek; None if it is compressed or a pipe."""
        return None if self.is_compressed else self._raw.rewind()

    def peek(self, size: int) -> bytes:
        """Return up to `size` bytes without consuming them: at least the first line, if it is not longer than that."""
        while len(self._peeked) < size and b"\n" not in self._peeked and (more := self._next(size)):
            self._peeked += more
        return self._peeked[:size]

    def read(self, size: int = READ_SIZE) -> bytes:
        """Return the next decompressed bytes; empty at the end."""
        peeked, self._peeked = self._peeked, b""
        return peeked or self._next(size)

    def _next(self, size: int) -> bytes:
        """Read the next decompressed bytes. Errors of all decompressors become errors of this library."""
        try:
            # `read1` returns the bytes that are available; `read` would wait for `size` bytes of a pipe.
            content: bytes = getattr(self._file, "read1", self._file.read)(size)
        except BudgetronError:
            raise
        except (EOFError, zlib.error, OSError, ValueError, RuntimeError) as error:
            raise self._read_error(error) from None
        except Exception as error:
            # zstandard and pyarrow are imported only on use, so their exception classes are known by name only.
            if type(error).__name__ not in ("ZstdError", "ArrowException"):
                raise
            raise self._read_error(error) from None
        self.ended = not content
        return content if self._decoder is None else self._transcode(content, size)

    def _transcode(self, content: bytes, size: int) -> bytes:
        """Convert bytes to UTF-8. If they are only the beginning of a character, read more."""
        assert self._decoder is not None
        try:
            # `encode` can fail too: utf-7, for example, can contain half of a surrogate pair, which UTF-8 cannot.
            converted: bytes = self._decoder.decode(content, final=self.ended).encode()
        except UnicodeError as error:
            reason = getattr(error, "reason", str(error))
            raise InputError(
                f"{self.name} is not encoded in {self._encoding}: {reason}, within the first {self.bytes_read:,} bytes."
            ) from None
        return converted if converted or self.ended else self._next(size)

    def progress(self, share: float) -> None:
        """Set `bytes_read` to a share of the file, for readers with random access, whose reads are not counted."""
        if self.bytes_total is not None:
            self._raw.bytes_read = int(share * self.bytes_total)

    def _read_error(self, error: Exception) -> BudgetronError:
        """Return the error for a failed read: a `StorageError` for the disk, an `InputError` for the content."""
        if isinstance(error, OSError) and error.errno is not None:  # the disk or the network failed, not the content
            return StorageError(f"{self.name}: reading failed after {self.bytes_read:,} bytes: {error.strerror}.")
        damaged = " The compressed file is damaged or incomplete." if self.is_compressed else ""
        return InputError(f"{self.name} could not be read: {error} after {self.bytes_read:,} bytes.{damaged}")

    def close_later(self, file: Any) -> Any:
        """Return the file; it will be closed together with this source."""
        self._to_close.append(file)
        return file

    def close(self) -> None:
        """Close all files that were opened here."""
        for file in self._to_close:
            file.close()
        self._raw.close_file()


class _Raw(io.RawIOBase):
    """The file as stored, with a count of the bytes read."""

    def __init__(self, source: Any) -> None:
        self.bytes_read = 0
        self._opened_here = False
        self._head = b""
        self._file: Any
        if isinstance(source, str | os.PathLike) and os.fspath(source) == "-":
            self.name, self._file = "standard input", sys.stdin.buffer
        elif isinstance(source, str | os.PathLike):
            self.name, self._file = os.fspath(source), self._open(os.fspath(source))
        elif hasattr(source, "read"):
            self.name, self._file = str(getattr(source, "name", "the stream")), source
        else:
            accepted = 'a path, "-" for standard input, or a file opened in binary mode'
            raise input_type_error(WHO, "source", accepted, shown(source))
        self.bytes_total = _size(self._file)
        seekable = getattr(self._file, "seekable", None)
        # A file object may already have been read in part; random access begins at its current position.
        self._begin = self._file.tell() if seekable is not None and seekable() else None

    def _open(self, path: Any) -> Any:
        """Open a file without Python's own buffering."""
        try:
            file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by `close_file`)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise InputFileMissing(f"No such file: {path}") from None
            raise InputError(f"Cannot read {path}: {error.strerror}.") from None
        self._opened_here = True
        return file

    def head(self, size: int) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._head) < size:
            more = self._take(size - len(self._head))
            if not more:
                break
            self._head += more
        return self._head

    def _take(self, size: int) -> bytes:
        """Read at most `size` bytes, without waiting until that many are there."""
        # `read1` returns the bytes that a pipe has now; `read` would wait for `size` bytes.
        content = getattr(self._file, "read1", self._file.read)(size)
        if not isinstance(content, bytes):
            got = f"{type(content).__name__} from {self.name}"
            raise input_type_error(WHO, "source", "a file opened in binary mode", got)
        self.bytes_read += len(content)
        return content

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes. For a pipe, return the bytes that it has now instead of waiting for more.

        A size below 0 reads to the end, as everywhere in Python.
        """
        if size < 0:
            return self.readall()
        if self._head:
            content, self._head = self._head[:size], self._head[size:]
            return content
        return self._take(size)

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def rewind(self) -> Any:
        """Return the file, at the position where reading began; None if it cannot seek."""
        if self._begin is not None:
            self._file.seek(self._begin)
        return None if self._begin is None else self._file

    def close_file(self) -> None:
        if self._opened_here:
            self._file.close()


def _decoder(encoding: Any) -> codecs.IncrementalDecoder | None:
    """Return a decoder for text that is not UTF-8; None if there is nothing to convert."""
    try:
        name = codecs.lookup(encoding).name
        if name in ("utf-8", "ascii"):
            return None
        # The decoders of utf-16 and utf-32 read the byte order mark. "strict": an invalid byte is an error.
        return codecs.getincrementaldecoder(name)("strict")
    except (LookupError, TypeError, AttributeError):
        accepted = 'the name of an encoding, such as "utf-8" or "cp1252"'
        raise input_error(WHO, "encoding", accepted, shown(encoding)) from None


def _size(file: Any) -> int | None:
    """Return the size of a regular file; None for a pipe or a file-like object."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    return (status.st_size or None) if stat.S_ISREG(status.st_mode) else None


def _zstd(raw: _Raw) -> Any:
    """Return a Zstandard decompressor: from Python itself (3.14 and later), from zstandard, or from pyarrow."""
    try:
        return importlib.import_module("compression.zstd").ZstdFile(raw)
    except ImportError:
        pass
    try:
        unpacker = importlib.import_module("zstandard").ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
        return unpacker.stream_reader(raw, read_size=READ_SIZE, read_across_frames=True)
    except ImportError:
        pass
    try:
        return importlib.import_module("pyarrow").CompressedInputStream(raw, "zstd")
    except ImportError:
        raise MissingExtra(
            f"{raw.name} is compressed with Zstandard, which this Python cannot read. "
            "Install a reader with: pip install 'budgetron[zstd]'"
        ) from None
