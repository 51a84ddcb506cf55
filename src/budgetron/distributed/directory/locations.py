"""Find out whether a folder or URL contains a model in shards, of which class, and whether it is live or saved.

The command line calls this before it opens a model. Nothing here opens or changes one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgetron.distributed.directory import record
from budgetron.distributed.replicas.replicated import ReplicatedModel
from budgetron.distributed.sharded import ShardedModel
from budgetron.distributed.split.placement import WHO
from budgetron.errors import input_error

CLASSES = {kind.__name__: kind for kind in (ShardedModel, ReplicatedModel)}


def is_in_shards(location: Any) -> bool:
    """Whether a folder contains a model in shards, live or saved. True for every URL, without a request to it."""
    return "://" in str(location) or (Path(location) / record.NAME).is_file()


def class_at(location: Any) -> type[ShardedModel]:
    """The class whose `open` or `load` reads this folder or URL."""
    kind = record.read_record(str(location)).kind
    if kind not in CLASSES:
        raise input_error(WHO, record.NAME, f"of {' or '.join(CLASSES)}", kind, "Use a newer budgetron.")
    return CLASSES[kind]


def is_live(location: Any) -> bool:
    """Whether this is a live directory, which `open` continues. Otherwise `save` wrote it, and `load` reads it."""
    return not record.read_record(str(location)).files
