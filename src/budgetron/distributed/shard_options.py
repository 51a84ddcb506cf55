"""The options with which a `ShardedHost` starts, and the check that they fit its directory.

Only `budgetron serve` starts such hosts, so the errors name its options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron.distributed.directory.journal import NAME, Journal
from budgetron.distributed.directory.record import NAME as RECORD
from budgetron.distributed.sharded import ShardedModel
from budgetron.distributed.split.placement import has_one_component
from budgetron.durable.storage.log_schema import NAME as HOST_DATABASE
from budgetron.errors import InputError, input_error

FOLDER = "shards"  # inside the model's directory


@dataclass(frozen=True)
class ShardOptions:
    """How to start the shards. `shards` applies only to a new model."""

    shards: int = 1
    workers: int = 2
    ray: Path | None = None  # run the workers on Ray, with the logs in this directory, which all nodes share
    block: int = 10_000  # rows per message
    snapshot_every: int = 50_000


def is_sharded_host(directory: Path) -> bool:
    """Whether the directory belongs to a `ShardedHost`."""
    return (directory / NAME).is_file()


def open_model(journal: Journal, make_model: Callable[[], Any] | None, options: ShardOptions) -> ShardedModel:
    """Open the sharded model of the directory, or create a new one, which starts with the first block."""
    parameters: dict[str, Any] = {
        "workers": options.workers,
        "backend": "local" if options.ray is None else "ray",
        "block": max(128, options.block),
        "snapshot_every": options.snapshot_every,
    }
    if (journal.shards_directory / RECORD).exists():
        if not journal.position:
            raise _unknown_shards_error(journal)
        return ShardedModel.open(journal.shards_directory, **parameters)
    learner = None if make_model is None else make_model()
    if learner is None or learner._is_fitted:
        got = "none" if learner is None else "a model file, which has learned already"
        raise input_error("serve", "MODEL", "the name of a learner for a new model in shards", got)
    if journal.shards > 1 and has_one_component(learner.graph):
        raise input_error(
            "serve", "--shards", "1 if the task graph has a single component", f"{journal.shards}",
            'Use a learner with another graph, such as "Budgetron graph=disconnected".',
        )  # fmt: skip
    return ShardedModel(learner, shards=journal.shards, directory=journal.shards_directory, **parameters)


def _unknown_shards_error(journal: Journal) -> InputError:
    """The error for shards that are older than the journal. Opening them could lock out the coordinator they belong to.
    """
    directory = journal.db.path.parent.absolute()
    if journal.shards_directory == directory / FOLDER:
        return input_error(
            "serve", "--data", "a directory in which models in shards have their journals",
            f"{str(directory)!r}, whose journal {NAME} is missing or empty",
            "Replace the whole directory by a copy that was made while the service was stopped, or give the new model "
            "another name.",
        )  # fmt: skip
    return input_error(
        "serve", "--ray", "a directory without the shards of another model of this name",
        f"{str(journal.shards_directory)!r}, which contains shards",
        "Name another directory, or give the new model another name.",
    )  # fmt: skip


def check_not_unsharded(directory: Path) -> None:
    """Raise `InputError` if the directory belongs to a `Host`, whose model has no shards."""
    if (directory / HOST_DATABASE).is_file():
        raise input_error(
            "serve", "--shards", "used for new models only", f"{directory.name!r}, which was started without shards",
            "Serve it without --shards and --ray, or give the new model another name.",
        )  # fmt: skip
