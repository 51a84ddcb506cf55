"""Convert the idempotency keys of earlier versions to rows of the tables in `key_tables`.

`EarlierKeys` is the base class of `IdempotencyKeys`. The directory of every earlier version must open, and a retry of a
request that the earlier version has learned must learn nothing twice.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.blocks import margins_from_bytes
from budgetron.durable.storage.key_tables import LAST_CHARACTER, SET_CHECKSUM, KeyTables


class EarlierKeys(KeyTables):
    """Conversions of earlier keys. They need an open transaction."""

    def has_message_keys(self, key: str) -> bool:
        """Whether there are stored keys that begin with "KEY/", as those of `convert_message_keys` do."""
        query = "SELECT EXISTS (SELECT 1 FROM answer WHERE key >= ? AND key < ?)"
        return bool(self._db.one(query, (f"{key}/", f"{key}/{LAST_CHARACTER}"))[0])

    def convert_message_keys(self, key: str, places: NDArray[np.int64]) -> None:
        """Convert keys "KEY/FIRST" of earlier versions to blocks of the stream KEY.

        Earlier versions stored one such key per message to a shard. FIRST is the position of the message's first row.
        `places` are the positions of all rows that the shard gets from this call. A message had consecutive rows of the
        shard, so FIRST and the number of stored margins tell which rows it had.
        """
        prefix = f"{key}/"
        query = "SELECT key, number, margins FROM answer WHERE key >= ? AND key < ? AND margins IS NOT NULL"
        for name, number, margins in list(self._db.rows(query, (prefix, prefix + LAST_CHARACTER))):
            first = name[len(prefix) :]
            if not first.isdecimal():  # "a/1/0" belongs to the call "a/1", not to "a"
                continue
            start = int(np.searchsorted(places, int(first)))
            positions = places[start : start + len(margins_from_bytes(margins))]
            if len(positions) and positions[0] == int(first):
                content = positions.astype("<i8").tobytes()
                values = (number, key, int(positions[0]), int(positions[-1]), content, margins)
                self._db.execute("INSERT OR IGNORE INTO stream_block VALUES (?, ?, ?, ?, ?, NULL, ?, NULL)", values)
                self._db.execute(SET_CHECKSUM["stream_block"], (number,))

    def migrate_format_1_streams(self) -> None:
        """Convert the streams of format 1, whose blocks had keys of the form "KEY:FIRST-LAST".

        The old keys stay too, because a client may have used a key of this form for a single request.
        """
        rows = list(self._db.rows("SELECT key, number, margins FROM answer WHERE key LIKE '%:%-%' ORDER BY number"))
        for key, number, margins in rows:
            match = re.fullmatch(r"(.+):(\d+)-(\d+)", key, flags=re.DOTALL)
            if match is not None and int(match[2]) <= int(match[3]) < 2**63:
                values = (number, match[1], int(match[2]), int(match[3]), margins)
                self._db.execute("INSERT INTO stream_block VALUES (?, ?, ?, ?, NULL, NULL, ?)", values)
