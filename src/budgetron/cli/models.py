"""Load, resume or create the model that a command works on: a model file, or a directory with a sharded model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetron.errors import input_error

if TYPE_CHECKING:
    from budgetron.io import Columns


def in_shards(path: str | None) -> bool:
    """Return whether a sharded model is at this path."""
    # Most models are plain files. They are recognised here without importing `distributed`, which takes long.
    if path is None or not ("://" in path or Path(path).is_dir()):
        return False
    from budgetron.distributed import is_in_shards

    return is_in_shards(path)


def load(path: str) -> tuple[Any, Columns | None]:
    """Load a model and its columns for prediction.

    From the directory of a sharded model, a copy is loaded, so that a process that has the directory open can continue.
    """
    from budgetron import io

    if not in_shards(path):
        if Path(path).is_dir():
            accepted = "a model file, or a directory with a model in shards"
            got, remedy = "a directory without a model", ""
            if (Path(path) / "host.sqlite").is_file():
                got, remedy = "the directory of a model of the service", "Get its model file with GET /v1/snapshot."
            raise input_error("model", "MODEL", accepted, f"{path!r}, {got}", remedy)
        return io.load_model(path)
    from budgetron.distributed import class_at

    model = class_at(path).load(path)
    return model, io.columns_of(model)


def resume_sharded(who: str, path: str, ray: str | None, workers: int) -> Any:
    """Open a sharded model to continue learning: in its own directory, or as a copy in memory or in a new directory."""
    from budgetron.distributed import class_at, is_live

    model_class = class_at(path)
    options: dict[str, Any] = {"workers": workers, "backend": "local" if ray is None else "ray"}
    # A live directory, in which a model learned, continues in place, unless --ray names another directory. A directory
    # that --save wrote is only read.
    if is_live(path) and (ray is None or Path(path).absolute() == Path(ray).absolute()):
        return model_class.open(path, **options)
    if not is_live(path) and ray is not None and Path(path).absolute() == Path(ray).absolute():
        got = f"{ray!r}, which --save wrote"
        raise input_error(
            who, "--ray", "a new directory", got, f"Continue in another one: --resume {path} --ray ANOTHER."
        )
    return model_class.load(path, directory=ray, **options)


def start_sharded(learner: Any, directory: str, shards: int, workers: int) -> Any:
    """Create a model on Ray: in shards if the task graph has several components, otherwise in replicas.

    Tasks of different components do not influence each other, so each shard learns exactly what a model of its own
    tasks would learn with its share of the budget. Replicas are an approximation: they exchange the part of the model
    that all tasks share, but only from time to time.
    """
    from budgetron import distributed

    options: dict[str, Any] = {"workers": workers, "backend": "ray", "directory": directory}
    if distributed.has_one_component(learner.graph):
        return distributed.ReplicatedModel(learner, replicas=shards, **options)
    return distributed.ShardedModel(learner, shards=shards, **options)


def known_columns(who: str, option: str, path: str, columns: Columns | None) -> Columns:
    """Return the columns of a model, or raise an error: a model without columns cannot read a stream."""
    if columns is None:
        raise input_error(
            who,
            option,
            "a model that knows the columns of its file",
            f"{path!r}, saved from Python without them",
            "Use it from Python, or save it there with budgetron.io.save_model.",
        )
    return columns
