"""Workers hold shards and learn: in threads of this process, or as actors on Ray."""
