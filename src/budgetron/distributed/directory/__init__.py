"""The directory of a distributed model: its record, the files of its shards, and the journal of the service."""
