"""The model that a command asks or goes on with: a file, or a directory of shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetron.errors import refuse

if TYPE_CHECKING:
    from budgetron.io import Columns


def in_shards(path: str | None) -> bool:
    """Whether a model in shards is there; a file is the usual case, and quickly told."""
    if path is None or not ("://" in path or Path(path).is_dir()):
        return False
    from budgetron.distributed import is_in_shards

    return is_in_shards(path)


def loaded(path: str) -> tuple[Any, Columns | None]:
    """A model to be asked, with its columns. Of a live directory it is a copy: a run that has it goes on."""
    from budgetron import io

    if not in_shards(path):
        if Path(path).is_dir():
            accepted = "a model file, or a directory with a model in shards"
            raise refuse("model", "MODEL", accepted, f"{path!r}, without one")
        return io.load_model(path)
    from budgetron.distributed import class_at

    model = class_at(path).load(path)
    return model, io.columns_of(model)


def resumed(who: str, path: str, ray: str | None, workers: int) -> Any:
    """A model in shards to go on with: in its own directory, or from a copy in a new one; on Ray, or in threads."""
    from budgetron.distributed import class_at, is_live

    kind = class_at(path)
    options: dict[str, Any] = {"workers": workers, "backend": "local" if ray is None else "ray"}
    if is_live(path) and (ray is None or Path(path).absolute() == Path(ray).absolute()):
        return kind.open(path, **options)
    if not is_live(path) and ray is not None and Path(path).absolute() == Path(ray).absolute():
        came = f"{ray!r}, which --save wrote"
        raise refuse(who, "--ray", "a new directory", came, f"--resume {path} --ray ANOTHER goes on from it.")
    return kind.load(path, directory=ray, **options)


def begun(learner: Any, directory: str, shards: int, workers: int) -> Any:
    """A new model on Ray: in shards by component, exactly; one component in replicas by groups of tasks."""
    from budgetron import distributed

    options: dict[str, Any] = {"workers": workers, "backend": "ray", "directory": directory}
    if distributed.has_one_component(learner.graph):
        return distributed.ReplicatedModel(learner, replicas=shards, **options)
    return distributed.ShardedModel(learner, shards=shards, **options)
