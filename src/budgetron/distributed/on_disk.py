"""A sharded model in files: saved as a whole to a folder or URL, or living in a directory with a log a shard."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Self

from budgetron.distributed import record
from budgetron.distributed.files import get, remove_others
from budgetron.distributed.inside import Inside
from budgetron.distributed.placement import WHO
from budgetron.distributed.worker import folder_of
from budgetron.durable.models import kept_of
from budgetron.durable.recovery import copied
from budgetron.errors import refuse
from budgetron.learners.learner import Learner


class OnDisk(Inside):
    """`save` and `load`, `open` and `snapshot`."""

    directory: Any
    _term: int

    def __init__(self, learner: Any, **parameters: Any) -> None:
        raise NotImplementedError

    def _begin(self, models: list[Any] | None = None) -> None:
        raise NotImplementedError

    def _reopen(self, term: int) -> None:
        raise NotImplementedError

    def _check_directory(self) -> None:
        """Refuse to begin where a model is already."""
        if self.directory is not None and (Path(self.directory) / record.NAME).exists():
            raise refuse(
                WHO, "directory", "an empty one for a new model", f"{str(self.directory)!r}, which has one",
                "ShardedModel.open goes on with it.",
            )  # fmt: skip

    def snapshot(self) -> None:
        """Every shard writes its model into the directory and trims its log."""
        self._check_begun()
        for shard in range(self.shards):
            self._team.ask_owner(shard, "snapshot")

    def save(self, target: Any) -> None:
        """Write all shards to a folder or an fsspec URL, each from its own worker; `ShardedModel.load` reads them.

        The list of the files is written last, so what is there is the old model or the new one, and never a mixture.
        """
        self._check_begun()
        target, stamp = str(target), secrets.token_hex(4)
        with self._team.holding(range(self.shards)):
            files = []
            for shard in range(self.shards):
                name = f"{folder_of(shard)}-{stamp}.budgetron"
                files.append(record.ShardFile(name, self._team.ask_owner(shard, "save", target, name)))
            door = record.put_door(target, self._door, stamp)
        record.write(target, self._record(door, files))
        remove_others(target, {door.name, *(file.name for file in files)})

    def keep_columns(self, columns: Any) -> None:
        """Write the columns of a stream (`budgetron.io`) to the model: its directory and its `save` have them."""
        self._check_begun()
        self._columns = columns
        self._write_record()

    def learner_of(self, task: Any = None) -> Learner:
        """A copy of the learner that has a task: that of its shard, with everything it stores."""
        self._check_begun()
        shard = int(self._placement.shards_of(self._door.one_task(task))[0])
        learner: Learner = kept_of(self._team.ask_owner(shard, "content")).model
        return learner

    @property
    def _columns(self) -> Any:
        return self._door.scout._columns if hasattr(self, "_door") else None

    @_columns.setter
    def _columns(self, columns: Any) -> None:
        self._door.scout._columns = columns

    @classmethod
    def load(cls, source: Any, **options: Any) -> Self:
        """The model that `save` wrote, to go on bit for bit. `options` are parameters such as workers and directory.

        Of a live directory it is a copy, as of now: whoever has the directory goes on undisturbed.
        """
        source = str(source)
        written = record.read(source)
        model = cls._of(source, written, options)
        model._check_directory()
        models = [kept_of(get(source, file.name, file.digest)).model for file in written.files]
        model._begin(models or [copied(Path(source) / folder_of(shard)).model for shard in range(written.shards)])
        return model

    @classmethod
    def open(cls, directory: Any, **options: Any) -> Self:
        """A live directory again, with all that was acknowledged; whoever had it before is shut out.

        `options` are parameters such as workers and backend.
        """
        written = record.read(str(directory))
        if written.files:
            raise refuse(f"{WHO}.open", "directory", "a live one", f"{str(directory)!r}, which save wrote",
                         "ShardedModel.load reads that.")  # fmt: skip
        model = cls._of(str(directory), written, {**options, "directory": directory})
        model._reopen(written.term)
        return model

    @classmethod
    def _of(cls, source: str, written: record.Record, options: dict[str, Any]) -> Self:
        if written.kind != cls.__name__:
            raise refuse(cls.__name__, "the place", f"one of a {cls.__name__}", f"{source!r}, of a {written.kind}")
        door = record.get_door(source, written)
        model = cls(door.learner, **{**cls._parameters_of(written), **options})
        model._door = door
        return model

    @staticmethod
    def _parameters_of(written: record.Record) -> dict[str, Any]:
        return {"shards": written.shards, "shares": written.shares, "pins": record.pins_of(written) or None}

    def _record(self, door: record.ShardFile, files: list[record.ShardFile] | None = None) -> record.Record:
        pins = record.pins_record(self._placement.pins)
        budget = getattr(self.learner, "budget", None)
        exchange_every = getattr(self, "exchange_every", None)
        return record.Record(
            record.FORMAT, type(self).__name__, self._term, self.shards, self.shares, pins, budget, door, files or [],
            exchange_every,
        )  # fmt: skip

    def _write_record(self) -> None:
        if self.directory is not None:
            directory = str(self.directory)
            door = record.put_door(directory, self._door, secrets.token_hex(4))
            record.write(directory, self._record(door))
            remove_others(directory, {door.name})
