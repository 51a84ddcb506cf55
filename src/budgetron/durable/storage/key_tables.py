"""The tables of idempotency keys in a SQLite file: their columns, their checksums, and how long keys are stored.

    answer             one request: key, record number, digest of the request, margins (NULL until they are stored)
    stream_block       a block of a stream: record number, key, first and last position; the positions (NULL: all from
                       first to last), a digest of eight bytes per row (NULL: not known), margins (NULL: not stored yet)
    stream_forgotten   key, the position before which answers of this stream have been deleted, and the last record
                       that was deleted

Every row of a table ends with a checksum. Without it, damage to a key on disk would not be noticed: a retry would not
find its key, and would be learned again. `idempotency` reads and fills these tables.
"""

from __future__ import annotations

from budgetron.durable.errors import damaged_log
from budgetron.durable.storage.sqlite_file import SqliteFile

# The oldest keys beyond these limits are deleted (`KeyTables.forget`). Then a retry of a single request counts as a new
# request. For a stream, the position is stored for longer.
MAX_KEYS = 100_000  # in each table
MAX_KEY_BYTES = 64 * 2**20  # of margins in `answer`; of margins and digests of rows in `stream_block`
LAST_CHARACTER = "\U0010ffff"  # keys that begin with a prefix are below the prefix plus this character
STREAM_SCHEMA = """
CREATE TABLE stream_block (number INTEGER PRIMARY KEY, key TEXT, first INTEGER, last INTEGER, places BLOB, digests BLOB,
    margins BLOB) STRICT;
CREATE INDEX stream_block_by_key ON stream_block (key, last);
CREATE TABLE stream_forgotten (key TEXT PRIMARY KEY, before INTEGER, number INTEGER) STRICT;
"""
CHECKSUM_SCHEMA = """
ALTER TABLE answer ADD COLUMN crc INTEGER;
ALTER TABLE stream_block ADD COLUMN crc INTEGER;
ALTER TABLE stream_forgotten ADD COLUMN crc INTEGER;
"""
SCHEMA_2 = f"""
CREATE TABLE answer (key TEXT PRIMARY KEY, number INTEGER, digest BLOB, margins BLOB) STRICT;
CREATE INDEX answer_by_number ON answer (number);
{STREAM_SCHEMA}
"""
SCHEMA = SCHEMA_2 + CHECKSUM_SCHEMA
# Table → the expression for the checksum of a row. The function `checksum` of `sqlite_file` takes numbers and bytes.
CHECKSUMS = {
    "answer": "checksum(CAST(key AS BLOB), number, digest, margins)",
    "stream_block": "checksum(number, CAST(key AS BLOB), first, last, places, digests, margins)",
    "stream_forgotten": "checksum(CAST(key AS BLOB), before, number)",
}
# Table → the statement that writes the checksum of the row of a record.
SET_CHECKSUM = {
    table: f"UPDATE {table} SET crc = {expression} WHERE number = ?" for table, expression in CHECKSUMS.items()
}


class KeyTables:
    """The tables of one file. Methods that change them need an open transaction."""

    def __init__(self, db: SqliteFile) -> None:
        self._db = db

    def write_checksums(self) -> None:
        """Write the checksums of all rows, which a file of an earlier format does not have."""
        for table, expression in CHECKSUMS.items():
            self._db.execute(f"UPDATE {table} SET crc = {expression}")

    def check(self) -> None:
        """Raise `DamagedLog` if a row does not match its checksum."""
        for table, expression in CHECKSUMS.items():
            damaged = self._db.one(f"SELECT number FROM {table} NOT INDEXED WHERE crc IS NOT {expression} LIMIT 1")
            if damaged is not None:
                what = f"the idempotency key of record {damaged[0]} does not match its checksum"
                raise damaged_log(self._db.path, what)

    def forget(self, max_keys: int, max_bytes: int, last_record: int | None = None) -> None:
        """Delete the oldest keys, so that at most `max_keys` keys and `max_bytes` bytes of answers remain per table.

        When blocks of a stream are deleted, `stream_forgotten` stores the position after them, so that a long stream
        still resumes correctly. Such a row takes few bytes, and there are at most `max_keys` of them. Stream blocks
        after record `last_record` are not deleted, even beyond the limits: `restore` can go back to any of these
        records, and then needs to know where each stream was.
        """
        for table, size in (
            ("answer", "length(margins)"),
            ("stream_block", "coalesce(length(margins), 0) + coalesce(length(digests), 0)"),
        ):
            # `by_count` is the newest record that is not among the latest `max_keys`. `by_bytes` is the newest record
            # whose answer, together with all later answers, takes more than `max_bytes`. `last` is the higher of these
            # two numbers. Everything up to `last` is deleted.
            by_count = f"SELECT number FROM {table} ORDER BY number DESC LIMIT 1 OFFSET ?"
            by_bytes = (
                f"SELECT max(number) FROM (SELECT number, sum({size}) OVER (ORDER BY number DESC) AS bytes_from_here "
                f"FROM {table}) WHERE bytes_from_here > ?"
            )
            (last,) = self._db.one(f"SELECT max(coalesce(({by_count}), 0), coalesce(({by_bytes}), 0))",
                                   (max_keys, max_bytes))  # fmt: skip
            if table == "stream_block":
                last = last if last_record is None else min(last, last_record)
                self._db.execute(
                    "INSERT INTO stream_forgotten SELECT key, max(last) + 1, max(number), NULL FROM stream_block "
                    "WHERE number <= ? GROUP BY key ON CONFLICT (key) DO UPDATE SET "
                    "before = max(before, excluded.before), number = excluded.number, crc = NULL", (last,),
                )  # fmt: skip
                expression = CHECKSUMS["stream_forgotten"]
                self._db.execute(f"UPDATE stream_forgotten SET crc = {expression} WHERE crc IS NULL")
            self._db.execute(f"DELETE FROM {table} WHERE number <= ?", (last,))
        oldest = "SELECT number FROM stream_forgotten ORDER BY number DESC LIMIT 1 OFFSET ?"
        self._db.execute(f"DELETE FROM stream_forgotten WHERE number <= ({oldest})", (max_keys,))
