"""The database of a host: the write-ahead log, the snapshots and the idempotency keys, in one SQLite file.

These modules treat the model as bytes.
"""
