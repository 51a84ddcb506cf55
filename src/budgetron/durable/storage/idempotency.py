"""Idempotency keys: which requests and streams were learned, so that a retry learns nothing twice.

A key names one of two things:

    a request   The same key with the same rows gets the first answer. With different rows it raises `KeyReused`.
    a stream    Rows that may be sent again from the beginning, divided into requests in any way. Each row has a
                position, a number that rises along the stream. Rows up to the last learned position are skipped,
                whichever request they are in. If the same position comes again with a different row, `KeyReused` is
                raised. A different row is only noticed if both requests have digests of their rows.

`key_tables` has the tables. A key is written in the transaction that logs its rows, so both are stored or neither is.
Old keys are deleted (`KeyTables.forget`). The log of a `Host` and the journal of a `ShardedHost` both use these tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable import blocks
from budgetron.durable.blocks import margins_from_bytes
from budgetron.durable.requests import Entry, Learned, StreamRows, key_reused_error
from budgetron.durable.storage.earlier_keys import EarlierKeys
from budgetron.durable.storage.key_tables import LAST_CHARACTER, SET_CHECKSUM
from budgetron.errors import InputError, input_error, shown


@dataclass
class UnwrittenData:
    """Rejected records, and margins of records with keys. Known only after a commit, and written with the next one."""

    rejected: list[int] = field(default_factory=list)
    answers: dict[int, bytes] = field(default_factory=dict)


class IdempotencyKeys(EarlierKeys):
    """The tables of idempotency keys in a SQLite file. Methods that change them need an open transaction."""

    # ---- which rows are new

    def select_unlearned(self, entries: Sequence[Entry], unwritten: UnwrittenData, classes: Any) -> list[Entry]:
        """Return the entries with new rows, and remove from them the rows that were learned before.

        Every other entry gets its answer here: the stored answer to the first request, or an error such as `KeyReused`.
        There is one exception. If two requests of this commit have the same key, the second is linked to the first
        (`Entry.duplicate_of`) and gets the answer of the first later.
        """
        new: list[Entry] = []
        first_of_key: dict[str, Entry] = {}
        for entry in entries:
            if entry.key is not None and entry.rows is not None:
                try:
                    self._skip_learned(entry, entry.key, entry.rows, unwritten, classes)
                except InputError as error:
                    entry.answer = error
            elif entry.key is not None:
                # Two requests with the same key may share this commit. Then only the first has rows to learn.
                entry.duplicate_of = first_of_key.setdefault(entry.key, entry)
                if entry.duplicate_of is entry:
                    entry.duplicate_of, entry.answer = None, self._first_answer(entry, unwritten, classes)
            if entry.answer is None and entry.duplicate_of is None:
                new.append(entry)
        return new

    def _first_answer(self, entry: Entry, unwritten: UnwrittenData, classes: Any) -> Learned | Exception | None:
        """The stored answer to the key of a request; `KeyReused` if the rows differ; None if the key is new."""
        query = "SELECT number, digest, margins FROM answer WHERE key = ?"
        row = self._db.one(query, (entry.key,))
        if row is None or row[0] in unwritten.rejected:  # a rejected request does not use up its key
            return None
        number, digest, margins = row
        margins = unwritten.answers.get(number, margins)
        if digest != entry.digest or margins is None:
            return key_reused_error(entry.key)
        return _repeated_answer(number, margins_from_bytes(margins), classes)

    def _skip_learned(self, entry: Entry, key: str, rows: StreamRows, unwritten: UnwrittenData, classes: Any) -> None:
        """Remove the rows that were learned before from an entry of a stream."""
        n = int(np.searchsorted(rows.places, self.end_of_stream(key, unwritten)))
        if n == 0:
            return
        number, margins = self._stored_margins(key, rows.first(n), unwritten)
        if n == len(rows.places):
            entry.answer = _repeated_answer(number, margins, classes)
        else:
            entry.n_before, entry.margins_before = n, margins
            entry.rows, entry.payload = rows.after(n), blocks.without_first_rows(entry.payload, n)
            entry.block = None if entry.block is None else entry.block.after(n)

    def end_of_stream(self, key: str, unwritten: UnwrittenData) -> int:
        """The position after the last learned row of a stream."""
        deleted_before = self._deleted_before(key)
        query = "SELECT number, last FROM stream_block WHERE key = ? ORDER BY last DESC"
        for number, last in self._db.rows(query, (key,)):
            if number not in unwritten.rejected:
                return max(deleted_before, int(last) + 1)
        return deleted_before

    def _deleted_before(self, key: str) -> int:
        """The position before which the answers of a stream have been deleted (`KeyTables.forget`)."""
        row = self._db.one("SELECT before FROM stream_forgotten WHERE key = ?", (key,))
        return 0 if row is None else int(row[0])

    def _stored_margins(self, key: str, rows: StreamRows, unwritten: UnwrittenData) -> tuple[int, NDArray[np.float64]]:
        """The last record with some of these rows, and the margins of all rows (NaN where they were deleted)."""
        row_places = rows.places
        is_known = row_places < self._deleted_before(key)
        margins: NDArray[np.float64] | None = None
        number = 0
        query = (
            "SELECT number, first, places, digests, margins FROM stream_block "
            "WHERE key = ? AND last >= ? AND first <= ? ORDER BY number"
        )
        span = (key, int(row_places[0]), int(row_places[-1]))
        for record, first, places, digests, stored in self._db.rows(query, span):
            content = unwritten.answers.get(record, stored)
            if record in unwritten.rejected or content is None:
                continue
            block_margins = margins_from_bytes(content)
            # Most blocks have consecutive positions, which are not stored.
            consecutive = np.arange(first, first + len(block_margins))
            positions = consecutive if places is None else np.frombuffer(places, dtype="<i8")
            index = np.minimum(np.searchsorted(positions, row_places), len(positions) - 1)
            in_block = positions[index] == row_places
            # Digests distinguish a retry from other rows at the same positions. Some blocks were stored without them.
            if digests is not None and rows.digests:
                now, before = np.frombuffer(rows.digests, dtype="<u8"), np.frombuffer(digests, dtype="<u8")
                if (now[in_block] != before[index[in_block]]).any():
                    raise key_reused_error(key)
            if margins is None:
                margins = np.full((len(row_places), *block_margins.shape[1:]), np.nan)
            elif margins.shape[1:] != block_margins.shape[1:]:
                raise input_error("Host", "rows", "all from before or all from after a restore of the model",
                                  "a request with both", "Send these rows again one by one.")  # fmt: skip
            margins[in_block] = block_margins[index[in_block]]
            is_known = is_known | in_block
            number = record
        if not is_known.all():
            row = int(row_places[~is_known][0])
            raise InputError(
                f"Host: row {row} of the stream {shown(key)} was rejected or left out the first time, and later rows "
                "were learned since. Send it under another key."
            )
        return number, np.full(len(row_places), np.nan) if margins is None else margins

    def check_stream(self, key: str, rows: StreamRows, unwritten: UnwrittenData) -> int:
        """How many of the first rows were learned before. Raises `KeyReused` if their content has changed since."""
        n = int(np.searchsorted(rows.places, self.end_of_stream(key, unwritten)))
        if n:
            self._stored_margins(key, rows.first(n), unwritten)
        return n

    def answers_to(self, prefix: str, unwritten: UnwrittenData) -> Iterator[tuple[str, Learned]]:
        """The stored keys that begin with `prefix`, without those of streams, and their answers."""
        query = "SELECT key, number, margins FROM answer WHERE key >= ? AND key < ?"
        for key, number, stored in self._db.rows(query, (prefix, prefix + LAST_CHARACTER)):
            margins = unwritten.answers.get(number, stored)
            if margins is not None and number not in unwritten.rejected:
                yield key, Learned(number, margins_from_bytes(margins), repeated=True)

    # ---- changes, inside a transaction

    def put(self, entry: Entry) -> None:
        """Store the key of an entry, in the transaction that logs the entry."""
        if entry.key is None:
            return
        if entry.rows is None:
            values: tuple[Any, ...] = (entry.key, entry.number, entry.digest)
            self._db.execute("INSERT INTO answer VALUES (?, ?, ?, NULL, NULL)", values)
            self._db.execute(SET_CHECKSUM["answer"], (entry.number,))
            return
        places = entry.rows.places
        first, last = int(places[0]), int(places[-1])
        stored_places = None if last - first + 1 == len(places) else places.astype("<i8").tobytes()
        values = (entry.number, entry.key, first, last, stored_places, entry.rows.digests or None)
        self._db.execute("INSERT INTO stream_block VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", values)
        self._db.execute(SET_CHECKSUM["stream_block"], (entry.number,))

    def store_margins(self, margins: Iterable[tuple[int, bytes]]) -> None:
        """Store the margins of records, so that a retry gets the same answer."""
        rows = [(content, number) for number, content in margins]
        for table in ("answer", "stream_block"):
            self._db.executemany(f"UPDATE {table} SET margins = ? WHERE number = ?", rows)
            self._db.executemany(SET_CHECKSUM[table], [(number,) for _, number in rows])

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete the keys of records that the model rejected, so that the keys may be used again."""
        rows = [(number,) for number in numbers]
        self._db.executemany("DELETE FROM answer WHERE number = ?", rows)
        self._db.executemany("DELETE FROM stream_block WHERE number = ?", rows)


def _repeated_answer(number: int, margins: NDArray[np.float64], classes: Any) -> Learned:
    """The answer to a retry. Its `classes` are None if the margins come from a model with more or fewer classes."""
    fits = classes is not None and (len(classes) == margins.shape[1] if margins.ndim == 2 else len(classes) <= 2)
    return Learned(number, margins, True, classes if fits else None, len(margins))
