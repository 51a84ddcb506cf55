"""`ModelHost`: the interface of a model on disk for the service. `Host` and `ShardedHost` implement it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from budgetron.durable.corrections import Correction, CorrectionResult
from budgetron.durable.hosted_model import HostedModel
from budgetron.durable.requests import Learned, Request
from budgetron.durable.storage.log import Record


class ModelHost(Protocol):
    """A model that owns a directory. `Host` documents the methods."""

    @property
    def in_shards(self) -> bool:
        """Whether the model is in shards. Then it has no single model file, and queries wait for its workers."""

    @property
    def directory(self) -> Path: ...

    @property
    def model(self) -> Any: ...

    @property
    def hosted_model(self) -> HostedModel: ...

    @property
    def position(self) -> int: ...

    @property
    def snapshot_record(self) -> int: ...

    @property
    def oldest_snapshot(self) -> int: ...

    @property
    def replayed_examples(self) -> int:
        """How many examples were learned again when the directory was opened.

        For a `Host`, these are the examples of the log after the snapshot. For a model in shards, they are the examples
        of unfinished requests.
        """

    @property
    def n_corrections(self) -> int:
        """The number of corrections so far."""

    @property
    def failing(self) -> Exception | None:
        """Why the last snapshot, or the last message to a shard, failed; or None. No acknowledged example is lost."""

    def learn_many(self, requests: Sequence[Request]) -> list[Learned | Exception]: ...

    def forget_task(self, task: Hashable) -> Learned: ...

    def set_operating_point(self, settings: Mapping[str, Any] | None) -> Learned: ...

    def correct(
        self, position: int, label: Any, row: int | None = None, *, who: str = "", reason: str = ""
    ) -> CorrectionResult: ...

    def withdraw(
        self, position: int, row: int | None = None, *, who: str = "", reason: str = ""
    ) -> CorrectionResult: ...

    def corrections(self, limit: int = 1000) -> list[Correction]: ...

    def record_of(self, key: str) -> int | None: ...

    def end_of_stream(self, key: str) -> int: ...

    def records_after(self, position: int) -> list[Record]: ...

    def forgotten_tasks(self, position: int) -> list[tuple[int, Hashable]]: ...

    def answers_to(self, prefix: str) -> dict[str, Learned]: ...

    def check_ready(self) -> None: ...

    def snapshot(self) -> None: ...

    def content(self) -> bytes: ...

    def restore(self, content: bytes, swapping: AbstractContextManager[Any] | None = None) -> None: ...

    def confirm(self) -> None:
        """Wait until the copy of the model, if there is one, contains the last commit.

        The service calls this if the activation or promotion of a version is repeated: the first attempt may have
        replaced the model, and failed only in copying it.
        """

    def backup(self, path: Path) -> None: ...

    def close(self) -> None: ...
