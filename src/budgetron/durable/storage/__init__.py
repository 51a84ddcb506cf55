"""The database of a host: write-ahead log, snapshots, idempotency keys and audit trail, in one SQLite file.

These modules treat the model as bytes.
"""
