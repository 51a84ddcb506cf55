"""What is at a place: a model in shards or not, and of which class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgetron.distributed import record
from budgetron.distributed.placement import WHO
from budgetron.distributed.replicated import ReplicatedModel
from budgetron.distributed.sharded import ShardedModel
from budgetron.errors import refuse

CLASSES = {kind.__name__: kind for kind in (ShardedModel, ReplicatedModel)}


def is_in_shards(place: Any) -> bool:
    """Whether a folder has a model in shards, live or saved; a URL is taken for one."""
    return "://" in str(place) or (Path(place) / record.NAME).is_file()


def class_at(place: Any) -> type[ShardedModel]:
    """The class whose `open` or `load` reads what is there."""
    kind = record.read(str(place)).kind
    if kind not in CLASSES:
        raise refuse(WHO, record.NAME, f"of {' or '.join(CLASSES)}", kind, "A newer budgetron reads it.")
    return CLASSES[kind]


def is_live(place: Any) -> bool:
    """Whether it has a log a shard, which `open` goes on with; `save` wrote it otherwise."""
    return not record.read(str(place)).files
