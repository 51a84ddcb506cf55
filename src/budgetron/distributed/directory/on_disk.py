"""`save` and `load`, `open` and `snapshot` of sharded models.

There are two kinds of folders. `save` writes one model file per shard to a folder or URL. A live directory has one log
per shard, to which a running model writes. In both, the record (`sharded.json`) names the valid model files, and is
written after them. `OnDisk` is a base class of `ShardedModel`.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from budgetron.distributed.directory import record
from budgetron.distributed.directory.file_access import read_file, remove_other_models
from budgetron.distributed.introspection import Introspection
from budgetron.distributed.workers.worker import folder_of
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.durable.recovery import load_copy
from budgetron.errors import input_error
from budgetron.learners.inspection.explanation import Explanation
from budgetron.learners.learner import Learner


class OnDisk(Introspection, ABC):
    """The methods of a sharded model that read and write files."""

    directory: Any
    _term: int  # see `DirectoryRecord.term`

    # ---- defined by `ShardedModel`

    @abstractmethod
    def __init__(self, learner: Any, **parameters: Any) -> None: ...

    @abstractmethod
    def _begin(self, models: list[Any] | None = None) -> None:
        """Start the shards with the given models, or with new ones for the first block."""

    @abstractmethod
    def _reopen(self, term: int) -> None:
        """Start the shards from their logs, as the successor of the coordinator of this term."""

    # ---- files

    def _check_directory(self) -> None:
        """Raise `InputError` if the directory of a new model already contains a model."""
        if self.directory is not None and (Path(self.directory) / record.NAME).exists():
            kind = type(self).__name__
            raise input_error(
                kind, "directory", "empty for a new model", f"{str(self.directory)!r}, which contains a model",
                f"Continue it with {kind}.open, or choose another directory.",
            )  # fmt: skip

    def snapshot(self) -> None:
        """Write a snapshot of every shard into the directory, and trim the logs. Without a directory, do nothing."""
        self._check_fitted()
        for shard in range(self.shards):
            self._workers.call_owner(shard, "snapshot")
        if self._validator.prototype.operating_point is not None:
            self._write_record()  # it includes the counts of the operating point

    def save(self, target: Any) -> None:
        """Write the model to a folder or fsspec URL, for `load`. Each worker writes its own shards.

        The record, which lists the files, is written last. So the target contains the old model or the new one, never a
        mixture.
        """
        self._check_fitted()
        # Every save uses new file names (the stamp), so the files of the last save are valid until the record changes.
        target, stamp = str(target), secrets.token_hex(4)
        with self._workers.locked(range(self.shards)):
            files = []
            for shard in range(self.shards):
                name = f"{folder_of(shard)}-{stamp}.budgetron"
                files.append(record.ShardFile(name, self._workers.call_owner(shard, "save", target, name)))
            prototype = record.write_prototype(target, self._validator, stamp)
        record.write_record(target, self._record(prototype, files))
        remove_other_models(target, {prototype.name, *(file.name for file in files)})

    def keep_columns(self, columns: Any) -> None:
        """Store the columns of a stream (`budgetron.io`) with the model, in its directory and in saved models."""
        self._check_fitted()
        self._columns = columns
        self._write_record()

    def learner_of(self, task: Any = None) -> Learner:
        """A copy of the learner of a task's shard, with everything that it stores."""
        self._check_fitted()
        shard = int(self._placement.shards_of(self._validator.locate_task(task))[0])
        learner: Learner = hosted_model_from(self._workers.call_owner(shard, "content")).model
        return learner

    def explain(self, x: Any, *, task: Any = None, **options: Any) -> Explanation:
        """Explain the prediction for one example, by a copy of the task's shard; see `Learner.explain`."""
        return self.learner_of(task).explain(x, task=task, **options)

    @property
    def _columns(self) -> Any:
        return self._validator.prototype._columns if hasattr(self, "_validator") else None

    @_columns.setter
    def _columns(self, columns: Any) -> None:
        self._validator.prototype._columns = columns

    @classmethod
    def load(cls, source: Any, **options: Any) -> Self:
        """Load the model that `save` wrote. It learns and predicts exactly as the saved model would have.

        There are two exceptions. With ``shares="demand"``, the examples and mistakes for the next rebalancing are
        counted from the load on. In a `ReplicatedModel`, what the replicas learned between the last exchange and the
        save is not exchanged, or only in part. To avoid this, call `rebalance` or `exchange` before `save`.

        `options` are parameters such as `workers` and `directory`. If `source` is a live directory, a copy of its
        current state is loaded, and the process that owns the directory is not disturbed.
        """
        source = str(source)
        saved = record.read_record(source, cls.__name__)
        model = cls._from_record(source, saved, options)
        model._check_directory()
        contents = (read_file(source, file.name, saved.kind, file.digest) for file in saved.files)
        models = [hosted_model_from(content).model for content in contents]
        # A live directory lists no files: its models are in the logs of the shards.
        model._begin(models or [load_copy(Path(source) / folder_of(shard)).model for shard in range(saved.shards)])
        return model

    @classmethod
    def open(cls, directory: Any, **options: Any) -> Self:
        """Continue the model of a live directory, with everything that was acknowledged.

        If another process has the directory open, that process can no longer write to it. `options` are parameters such
        as `workers` and `backend`.
        """
        saved = record.read_record(str(directory), cls.__name__)
        if saved.files:
            raise input_error(
                f"{cls.__name__}.open", "directory", "a live directory", f"{str(directory)!r}, which save wrote",
                f"Use {saved.kind}.load.",
            )  # fmt: skip
        model = cls._from_record(str(directory), saved, {**options, "directory": directory})
        model._reopen(saved.term)
        return model

    @classmethod
    def _from_record(cls, source: str, saved: record.DirectoryRecord, options: dict[str, Any]) -> Self:
        """Create a model that has not started yet, with the parameters and the prototype of a record."""
        if saved.kind != cls.__name__:
            raise input_error(
                cls.__name__,
                "source",
                f"the location of a {cls.__name__}",
                f"{source!r}, which contains a {saved.kind}",
                f"Use {saved.kind}.load or {saved.kind}.open.",
            )
        validator = record.read_validator(source, saved)
        model = cls(validator.learner, **{**cls._parameters_of(saved), **options})
        model._validator = validator
        return model

    @staticmethod
    def _parameters_of(saved: record.DirectoryRecord) -> dict[str, Any]:
        return {"shards": saved.shards, "shares": saved.shares, "pins": record.pins_of(saved) or None}

    def _record(
        self, prototype: record.ShardFile, files: list[record.ShardFile] | None = None
    ) -> record.DirectoryRecord:
        """Return the record of this model. `files` are the model files that `save` wrote; a live directory has none."""
        pins = record.pins_record(self._placement.pins)
        budget = getattr(self.learner, "budget", None)
        exchange_every = getattr(self, "exchange_every", None)  # only a `ReplicatedModel` has it
        return record.DirectoryRecord(
            record.FORMAT, type(self).__name__, self._term, self.shards, self.shares, pins, budget, prototype,
            files or [], exchange_every,
        )  # fmt: skip

    def _write_record(self) -> None:
        if self.directory is not None:
            directory = str(self.directory)
            prototype = record.write_prototype(directory, self._validator, secrets.token_hex(4))
            record.write_record(directory, self._record(prototype))
            remove_other_models(directory, {prototype.name})
