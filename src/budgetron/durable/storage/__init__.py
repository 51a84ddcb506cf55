"""The database of a host: the write-ahead log, the snapshots and the idempotency keys, in one SQLite file.

Nothing here touches the model: it is bytes to these modules.
"""
