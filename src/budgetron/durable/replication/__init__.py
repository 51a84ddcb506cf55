"""A continuous copy of a host in a directory or any fsspec URL: replication, point-in-time restore, warm standby.

    epochs/EPOCH-DIRECTORY-PROCESS    one empty object per owner; the highest epoch owns the copy (`fencing`)
    log/EPOCH/RUN/…-start-…           a copy of the database, as in a backup: the first object of a run
    log/EPOCH/RUN/…-base-…            the same, but the records of the previous run lead to it without a gap
    log/EPOCH/RUN/…-log-…             a segment: some records after the copy of the database, with idempotency keys
    log/EPOCH/head                    how far the copy goes: written last, and replaced with every copy
    versions/…                        the named versions of the model (`copied_versions`)

An epoch is the number of an owner; each new owner has a higher one. A run is a copy of the database with the records
that follow it.

`store` reads and writes objects, `objects` has their format, and `history` says which objects make up a state.
`Replicator` writes a copy, `Follower` follows it, and `rebuild` turns it into the database of a host again.
"""
