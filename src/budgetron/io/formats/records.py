"""`Records`: reads a text file chunk by chunk, for the readers of text formats.

The buffer must stay bounded, however long the file and its lines are. It has at most about `SAMPLE_BYTES` + `MAX_BYTES`
for the sample of first rows, and later at most about two times `MAX_BYTES`.
"""

from __future__ import annotations

from budgetron.errors import InputError
from budgetron.io.formats.scan import Scan, scan
from budgetron.io.source import READ_SIZE, Source

MAX_BYTES = 1 << 23  # the largest read, and the number of bytes up to which the buffer is filled for a block of rows
_BOMS = {b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe\x00\x00": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
Chunk = tuple[Scan, bytes, int]  # the records found, the buffer, and the offset that their positions count from


class Records:
    """Records of delimited text, or lines. A UTF-8 byte order mark is skipped."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = b""
        self._start = 0  # where the next record begins in the buffer
        self._in_long_line = False  # whether the next bytes belong to a line over the limit, and are discarded
        self._lines = 0  # lines consumed so far
        self._line_bytes = 64.0  # bytes per line in the last chunk, to estimate how much to read
        self.at_end = False  # the whole rest of the file is in the buffer
        while len(self._buffer) < 4 and self._read_more():
            pass
        for mark, encoding in _BOMS.items():
            if self._buffer.startswith(mark):
                raise InputError(
                    f"{source.name} is encoded in {encoding}; UTF-8 is expected. "
                    f'Read it with encoding="{encoding.lower()}".'
                )
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._start = 3

    def _read_more(self) -> bool:
        """Read more bytes into the buffer; False at the end of the file."""
        # Doubling the buffer for a long record makes the time linear in its length, not quadratic.
        read = self._source.read(min(max(READ_SIZE, len(self._buffer)), MAX_BYTES))
        self.at_end = self._source.ended
        if self._in_long_line:
            end = read.find(b"\n")
            self._in_long_line = end < 0
            # Skip to the end of the long line; it was reported as bad already.
            read = b"" if end < 0 else read[end + 1 :]
        self._buffer = self._buffer[self._start :] + read
        self._start = 0
        return not self.at_end

    def fill(self, rows: int, limit: int) -> None:
        """Read until the buffer holds `rows` lines, or `limit` bytes, or the rest of the file."""
        while len(self._buffer) - self._start < limit and self._buffer.count(b"\n", self._start) < rows:
            if not self._read_more():
                break

    def _fill_bytes(self, size: int) -> None:
        while len(self._buffer) - self._start < size and self._read_more():
            pass

    def peek(self, delimiter: str, kinds: bytes, rows: int) -> Chunk:
        """Return the records in the buffer without consuming them."""
        return self._chunk(scan(self._buffer, self._start, self.at_end, delimiter, kinds, rows, rows))

    def next(self, delimiter: str, kinds: bytes, rows: int, max_bad: int) -> Chunk:
        """Return the next records, none at the end of the file."""
        # A pipe has no size. Take the bytes that it has now, because waiting for a full block would delay its rows.
        if self._source.bytes_total is not None:
            self._fill_bytes(min(int(rows * self._line_bytes), MAX_BYTES))
        while True:
            chunk = self._chunk(scan(self._buffer, self._start, self.at_end, delimiter, kinds, rows, max_bad))
            scanned = chunk[0]
            self._start += scanned.consumed
            self._lines += scanned.n_lines
            if scanned.n_lines:
                # With the length of the last lines, the next block can be read in one call.
                self._line_bytes = scanned.consumed / scanned.n_lines
            self._in_long_line |= scanned.in_long_line
            if len(scanned.first_lines) or scanned.bad or self.at_end:
                return chunk
            self._read_more()

    def empty_chunk(self, kinds: bytes) -> Chunk:
        """Return a chunk without records, but with columns of these kinds."""
        return self._chunk(scan(b"", 0, True, ",", kinds, 1, 1))

    def _chunk(self, scanned: Scan) -> Chunk:
        """Return the records with line numbers of the file instead of the buffer."""
        first = self._lines + 1  # lines count from 1
        bad = [record._replace(line=record.line + first) for record in scanned.bad]
        return scanned._replace(first_lines=scanned.first_lines + first, bad=bad), self._buffer, self._start

    def first(self, delimiter: str, kinds: bytes) -> Chunk:
        """Return the first record, good or bad, without consuming it; none if the file is empty."""
        while True:
            chunk = self.peek(delimiter, kinds, 1)
            if len(chunk[0].first_lines) or chunk[0].bad or self.at_end:
                return chunk
            self._read_more()
