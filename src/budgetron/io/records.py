"""The bytes of a text file, scanned piece by piece: at any time a block of rows is held, and at most a record more."""

from __future__ import annotations

from budgetron.errors import refuse
from budgetron.io.scan import Scan, scan
from budgetron.io.source import PIECE, Source

MAX_BYTES = 1 << 23  # that a block of rows may have, unless a single record has more
_BOMS = {b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe\x00\x00": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
Piece = tuple[Scan, bytes, int]  # what was found, the bytes it is in, and where they begin


class Records:
    """Records of delimited text, or lines; a byte order mark is passed over."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = b""
        self._at = 0
        self._in_long_line = False
        self._lines = 0  # behind us
        self._line_bytes = 64.0  # of a line, about
        self.at_end = False  # of the file: all that is left is at hand
        while len(self._buffer) < 4 and self._more():
            pass
        for mark, encoding in _BOMS.items():
            if self._buffer.startswith(mark):
                remedy = f"Convert it: iconv -f {encoding} -t UTF-8."
                raise refuse(source.name, "the file", "in UTF-8", encoding, remedy)
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._at = 3

    def _more(self) -> bool:
        """Read on; False at the end."""
        piece = self._source.read(min(max(PIECE, len(self._buffer)), MAX_BYTES))
        self.at_end = self._source.ended
        if self._in_long_line:
            end = piece.find(b"\n")
            self._in_long_line = end < 0
            piece = b"" if end < 0 else piece[end + 1 :]
        self._buffer = self._buffer[self._at :] + piece
        self._at = 0
        return not self.at_end

    def fill(self, rows: int, limit: int) -> None:
        """Have so many lines at hand, or so many bytes, or all."""
        while len(self._buffer) - self._at < limit and self._buffer.count(b"\n", self._at) < rows and self._more():
            pass

    def _fill_bytes(self, size: int) -> None:
        while len(self._buffer) - self._at < size and self._more():
            pass

    def peek(self, delimiter: str, wants: bytes, rows: int) -> Piece:
        """The records at hand, which will be scanned again."""
        return self._piece(scan(self._buffer, self._at, self.at_end, delimiter, wants, rows, rows))

    def next(self, delimiter: str, wants: bytes, rows: int, max_bad: int) -> Piece:
        """The next records; none at the end. From a pipe, as many as it has now."""
        if self._source.bytes_total is not None:
            self._fill_bytes(min(int(rows * self._line_bytes), MAX_BYTES))
        while True:
            piece = self._piece(scan(self._buffer, self._at, self.at_end, delimiter, wants, rows, max_bad))
            found = piece[0]
            self._at += found.consumed
            self._lines += found.n_lines
            if found.n_lines:
                self._line_bytes = found.consumed / found.n_lines
            self._in_long_line |= found.unfinished
            if len(found.lines) or found.bad or self.at_end:
                return piece
            self._more()

    def nothing(self, wants: bytes) -> Piece:
        """No records, in the shape of some."""
        return self._piece(scan(b"", 0, True, ",", wants, 1, 1))

    def _piece(self, found: Scan) -> Piece:
        first = self._lines + 1  # lines count from 1
        bad = [one._replace(line=one.line + first) for one in found.bad]
        return found._replace(lines=found.lines + first, bad=bad), self._buffer, self._at

    def first(self, delimiter: str, wants: bytes) -> Piece:
        """The first record or bad one, which will be scanned again; none where there is none."""
        while True:
            piece = self.peek(delimiter, wants, 1)
            if len(piece[0].lines) or piece[0].bad or self.at_end:
                return piece
            self._more()
