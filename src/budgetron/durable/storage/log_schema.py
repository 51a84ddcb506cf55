"""The tables of a host's database, and the migrations from earlier formats.

    owner      epoch of the owner, number of the last record, numbers of the newest snapshot and the one before
    log        record number, first record number of the same commit, CRC-32, bytes of the block (NULL: it was rejected,
               or all its examples were withdrawn)
    answer, stream_block, stream_forgotten      idempotency keys; see `key_tables`
    snapshot   the number of the last record that the model file contains, and the file in parts; see `snapshots`
    correction the audit trail: record number, row, old and new label as JSON (NULL: withdrawn), who, why, when

After the older snapshot, the numbers in the log have no gaps, so that a missing record is noticed. A table with a
column `one` has a single row.
"""

from __future__ import annotations

from budgetron.durable.storage.earlier_keys import EarlierKeys
from budgetron.durable.storage.key_tables import CHECKSUM_SCHEMA, SCHEMA_2, STREAM_SCHEMA, KeyTables
from budgetron.durable.storage.sqlite_file import SqliteFile

NAME = "host.sqlite"
TRAIL_CHECKSUM = "checksum(number, position, place, old, new, CAST(who AS BLOB), CAST(reason AS BLOB), at)"
OWNER_CHECKSUM = "checksum(epoch, position, snapshot, previous)"
# A rejected record keeps its number and loses its bytes. The CRC-32 of a record is seeded with its number
# (`Log.append`), and the CRC-32 of no bytes is the seed. So the checksum of a record without bytes is its number.
CLEAR_RECORD = "UPDATE log SET block = NULL, crc = number & 4294967295 WHERE number = ?"
# Before the first snapshot no example was acknowledged. Until then, rejected records are deleted completely, so gaps in
# the numbers are no sign of damage.
DROP_RECORD = "DELETE FROM log WHERE number = ? AND (SELECT snapshot FROM owner) IS NULL"
_SNAPSHOT_COLUMNS = """
ALTER TABLE owner ADD COLUMN snapshot INTEGER;
ALTER TABLE owner ADD COLUMN previous INTEGER;
ALTER TABLE owner ADD COLUMN crc INTEGER;
"""
_CORRECTIONS = """
CREATE TABLE IF NOT EXISTS correction (number INTEGER PRIMARY KEY AUTOINCREMENT, position INTEGER, place INTEGER,
    old BLOB, new BLOB, who TEXT, reason TEXT, at REAL, crc INTEGER) STRICT;
CREATE INDEX IF NOT EXISTS correction_by_position ON correction (position);
"""
_SET_OWNER_CHECKSUM = f"UPDATE owner SET crc = {OWNER_CHECKSUM};"
SCHEMA = f"""
CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER, position INTEGER) STRICT;
CREATE TABLE log (number INTEGER PRIMARY KEY, batch INTEGER, crc INTEGER, block BLOB) STRICT;
CREATE TABLE snapshot (number INTEGER, part INTEGER, content BLOB, PRIMARY KEY (number, part)) STRICT;
INSERT INTO owner VALUES (1, 0, 0);
{SCHEMA_2} {CHECKSUM_SCHEMA} {_SNAPSHOT_COLUMNS} {_SET_OWNER_CHECKSUM} {_CORRECTIONS}
"""


def _to_format_2(db: SqliteFile) -> None:
    """Add the tables of streams, which format 1 did not have."""
    db.executescript(STREAM_SCHEMA)
    EarlierKeys(db).migrate_format_1_streams()


def _to_format_3(db: SqliteFile) -> None:
    """Add checksums, the numbers of the snapshots, and a cleared record for each rejected one.

    Format 2 deleted rejected records. Without their numbers, the log would seem to have lost records.
    """
    db.executescript(CHECKSUM_SCHEMA + _SNAPSHOT_COLUMNS)
    KeyTables(db).write_checksums()
    numbers = [number for (number,) in db.rows("SELECT DISTINCT number FROM snapshot ORDER BY number DESC LIMIT 2")]
    db.execute("UPDATE owner SET snapshot = ?, previous = ?", [*numbers, None, None][:2])
    db.execute(_SET_OWNER_CHECKSUM)
    if numbers:
        (last,) = db.one("SELECT position FROM owner")
        db.execute(
            "WITH RECURSIVE expected (number) AS (SELECT ?1 + 1 WHERE ?1 < ?2 UNION ALL "
            "SELECT number + 1 FROM expected WHERE number < ?2) "
            "INSERT OR IGNORE INTO log SELECT number, number, number & 4294967295, NULL FROM expected",
            (numbers[-1], last),
        )


def _to_format_4(db: SqliteFile) -> None:
    """Add the audit trail of corrections."""
    db.executescript(_CORRECTIONS)


MIGRATIONS = {1: _to_format_2, 2: _to_format_3, 3: _to_format_4}
