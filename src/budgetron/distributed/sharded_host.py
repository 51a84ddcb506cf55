"""`ShardedHost`: a model in shards with the guarantees of a `Host`, over several logs. `budgetron serve` uses it.

Learning: a request is written to the journal and forced to disk, then sent to its shards, each of which writes its rows
to its own log before it learns them. Then the request is acknowledged. An interrupted request is finished before any
other request, also after a restart. This way every shard learns its rows once, in the order of the journal.

It must never send a shard a request that is not in the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from budgetron.decisions import OperatingPoint
from budgetron.decisions.saved_point import point_from_bytes, point_to_bytes
from budgetron.distributed.directory.journal import Journal
from budgetron.distributed.errors import InShards, Unfinished
from budgetron.distributed.learning import ConvertedRequest
from budgetron.distributed.shard_options import FOLDER, ShardOptions, check_not_unsharded, open_model
from budgetron.distributed.sharded import ShardedModel
from budgetron.durable import Correction, CorrectionResult, HostedModel, Learned, Request, blocks
from budgetron.durable.blocks import margins_to_bytes
from budgetron.durable.errors import storage_errors
from budgetron.durable.ownership import DirectoryLock, make_private, remove_leftovers
from budgetron.durable.requests import Entry, answer_of, entry_of, group_into_commits
from budgetron.errors import Closed, InputError, input_error, shown

_LOCK_TIMEOUT = 0.5  # seconds that check_ready waits for a commit in progress


class ShardedHostedModel(HostedModel):
    """The properties of a sharded model that decide how rows are encoded."""

    def __init__(self, model: ShardedModel) -> None:
        self.model, self.columns = model, None

    @property
    def sparse(self) -> bool:
        return bool(self.model._validator.is_sparse)


class ShardedHost:
    """A `ShardedModel` and the journal of the requests to learn. Created by `ShardedHost.open`."""

    in_shards: ClassVar[bool] = True
    n_corrections: ClassVar[int] = 0

    def __init__(self, directory: Path, lock: DirectoryLock, journal: Journal, model: ShardedModel) -> None:
        self.directory, self._lock, self._journal = directory, lock, journal
        self.model = model
        self.hosted_model = ShardedHostedModel(model)
        self.failing: Exception | None = None  # why a request in the journal is not learned yet
        self.position = journal.position
        self._commit_lock = threading.Lock()
        self._is_open = True
        content = journal.point()
        if content is not None:
            model.operating_point = point_from_bytes(content, model.classes_ if self.hosted_model.is_fitted else None)
        # The operating point after the requests that were just sent. The model gets it once it is in the journal.
        self._point: OperatingPoint | None = None
        self.replayed_examples = self._finish_earlier()

    @classmethod
    def open(cls, directory: Path, make_model: Callable[[], Any] | None, options: ShardOptions) -> Self:
        """Open a directory, new or not, and finish the requests that were interrupted."""
        with storage_errors(directory / "lock"):
            make_private(directory)
            lock = DirectoryLock(directory)
        with ExitStack() as undo:
            undo.callback(lock.release)
            remove_leftovers(directory)
            check_not_unsharded(directory)
            shards_directory = (directory / FOLDER if options.ray is None else options.ray / directory.name).absolute()
            journal = Journal(directory, shards_directory, options.shards)
            undo.callback(journal.close)
            if options.ray is not None and journal.shards_directory != shards_directory:
                accepted = f"{str(journal.shards_directory.parent)!r}, where the shards of {directory.name!r} are"
                raise input_error("serve", "--ray", accepted, repr(str(options.ray)))
            model = open_model(journal, make_model, options)
            undo.callback(model.close)
            host = cls(directory, lock, journal, model)
            undo.pop_all()
        return host

    # ---- learning

    def learn_many(self, requests: Sequence[Request]) -> list[Learned | Exception]:
        """Learn several requests, each exactly once. Returns one acknowledgement or exception per request."""
        entries: list[Entry | Exception] = []
        for request in requests:
            try:
                entries.append(entry_of(request, self.hosted_model.width, False))
            except InputError as error:
                entries.append(error)
        with self._commit_lock:
            for group in group_into_commits([entry for entry in entries if isinstance(entry, Entry)]):
                self._commit(group)
        return [entry if isinstance(entry, Exception) else answer_of(entry) for entry in entries]

    def _commit(self, entries: list[Entry]) -> None:
        """Write entries to the journal and let the shards learn them. Afterwards `answer_of` has every answer."""
        try:
            self._finish_earlier()
            new = self._journal.select_unlearned(entries, self._classes)
            self._append(new)
        except Exception as error:  # Nothing was written, so nothing may be learned.
            for entry in entries:
                entry.answer = entry.answer or self._not_written_error(error)
        else:
            self._learn(new)

    @property
    def _classes(self) -> Any:
        return self.model.classes_ if self.hosted_model.is_fitted else None

    def forget_task(self, task: Hashable) -> Learned:
        """Remove a task's stored examples and weights. Written to the journal like examples."""
        learned = self._commit_one(Entry(blocks.encode_forget(task)))
        self._empty_write_ahead_file()
        return learned

    def set_operating_point(self, settings: Mapping[str, Any] | None) -> Learned:
        """Change the settings of the operating point; None removes it. See `Host.set_operating_point`."""
        return self._commit_one(Entry(self.hosted_model.checked_point(settings)))

    def _commit_one(self, entry: Entry) -> Learned:
        """Commit a single entry and return its answer, or raise it."""
        with self._commit_lock:
            try:
                self._finish_earlier()
                self._append([entry])
            except Exception as error:
                raise self._not_written_error(error) from error
            self._learn([entry])
        answer = answer_of(entry)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def correct(
        self, position: int, label: Any, row: int | None = None, *, who: str = "", reason: str = ""
    ) -> CorrectionResult:
        raise _cannot_correct_error()

    def withdraw(self, position: int, row: int | None = None, *, who: str = "", reason: str = "") -> CorrectionResult:
        raise _cannot_correct_error()

    def corrections(self, limit: int = 1000) -> list[Correction]:
        raise _cannot_correct_error()

    def record_of(self, key: str) -> int | None:
        raise _cannot_correct_error()

    def forgotten_tasks(self, position: int) -> list[tuple[int, Hashable]]:
        """Empty: the journal deletes finished requests. A request to forget that was interrupted has to be repeated."""
        return []

    def end_of_stream(self, key: str) -> int:
        """The position after the last learned row of a stream, where its reader must continue. 0 for a new stream."""
        with self._commit_lock:
            return self._journal.end_of_stream(key)

    def _append(self, new: list[Entry]) -> None:
        if not self._is_open:
            raise Closed("Host: this host was closed.")
        if new:
            self._journal.append(new)
            self.position = new[-1].number

    def _learn(self, new: list[Entry]) -> None:
        """Send journaled entries to the shards. If that fails, all of them are sent again later."""
        try:
            answers = self._send([(entry.number, entry.payload) for entry in new], is_new=True)
            self._finish(answers)
        except Exception as error:
            self.failing = error
            for entry in new:
                entry.answer = _unfinished_error(error)
            return
        for entry, (number, answer) in zip(new, answers, strict=True):
            if isinstance(answer, Learned):
                answer = entry.learned(number, answer.margins, self._classes)
            entry.answer = answer

    def _finish_earlier(self) -> int:
        """Learn the requests in the journal that were not acknowledged. Returns the number of examples."""
        if not self._journal.any_unfinished():
            self.failing = None
            return 0
        answers = self._send(self._journal.unfinished())
        self._finish(answers)
        self._journal.db.empty_write_ahead_file()  # one of them may have been to forget a task
        self.failing = None
        return sum(len(answer.margins) for _, answer in answers if isinstance(answer, Learned))

    def _send(self, numbered: Sequence[tuple[int, bytes]], is_new: bool = False) -> list[tuple[int, Any]]:
        """Send requests to the shards, in order. Returns the answer or rejection of each; a failure is raised."""
        self._point = deepcopy(self.model.operating_point)
        answers: list[tuple[int, Any]] = []
        group: list[tuple[int, blocks.LoggedBlock]] = []
        for number, payload in numbered:
            block = blocks.decode_block(payload)
            if block.kind in ("forget", "point"):
                answers += self._send_examples(group, is_new)
                change = self._forget if block.kind == "forget" else self._change_point
                answers.append((number, change(number, block)))
                group = []
            else:
                group.append((number, block))
        return answers + self._send_examples(group, is_new)

    def _send_examples(self, group: list[tuple[int, blocks.LoggedBlock]], is_new: bool) -> list[tuple[int, Any]]:
        """Send blocks of examples to the shards, and count them in the operating point."""
        requests = [
            ConvertedRequest(block.examples, f"{self._journal.name}-{number}", block.classes)
            for number, block in group
        ]
        margins = self.model.learn_converted(requests, new_keys=is_new)
        for (_, block), outcome in zip(group, margins, strict=True):
            if not isinstance(outcome, Exception):
                self._point = self.model.count_learned(self._point, outcome, block.examples.labels)
        return [
            (number, outcome if isinstance(outcome, Exception) else Learned(number, outcome))
            for (number, _), outcome in zip(group, margins, strict=True)
        ]

    def _change_point(self, number: int, block: blocks.LoggedBlock) -> Learned | Exception:
        """Replace the operating point that `_finish` will store."""
        (request,) = block.examples.rows
        try:
            self._point = self.model.changed_point(self._point, request.get("settings"))
        except InputError as error:  # the examples before this request have more labels than an operating point accepts
            return error
        return Learned(number, np.empty(0))

    def _forget(self, number: int, block: blocks.LoggedBlock) -> Learned | Exception:
        """Let the shard of a task forget the task."""
        task = block.examples.tasks[0]
        if self.hosted_model.is_fitted:
            try:
                self.model._validator.locate_task(task)
            except InputError as error:
                return error
            self.model.forget_task(task)
        return Learned(number, np.empty(0))

    def _finish(self, answers: Sequence[tuple[int, Any]]) -> None:
        learned = [
            (number, margins_to_bytes(answer.margins)) for number, answer in answers if isinstance(answer, Learned)
        ]
        rejected = [number for number, answer in answers if isinstance(answer, Exception)]
        self._journal.finish(learned, rejected, None if self._point is None else point_to_bytes(self._point))
        # Not earlier, because after a failure the requests are sent and counted again.
        self.model.operating_point = self._point

    def _not_written_error(self, error: Exception) -> Exception:
        """The error for a request that was not written: `Unfinished` if an earlier one is unfinished, else `error`."""
        if not self._journal.any_unfinished():
            return error
        self.failing = error
        return Unfinished(
            f"service: an earlier request must be learned first, but a shard failed: {_describe(error)}. This call "
            "wrote nothing. Send it again with its key."
        )

    def check_ready(self) -> None:
        """Raise the error that `learn_many` would return now, for example if a disk is full or a worker is lost."""
        if not self._commit_lock.acquire(timeout=_LOCK_TIMEOUT):
            if self.failing is not None:
                raise self.failing
            return
        try:
            if not self._is_open:
                raise Closed("Host: this host was closed.")
            self._journal.try_to_write()
            self._finish_earlier()
            if self.hosted_model.is_fitted:
                self.model._workers.call_all("check_ready")
        finally:
            self._commit_lock.release()

    # ---- snapshots, and operations that need a model without shards

    def snapshot(self) -> None:
        """Let every shard write a snapshot and trim its log, and empty the write-ahead file of the journal."""
        if self.hosted_model.is_fitted:
            self.model.snapshot()
        self._empty_write_ahead_file()

    def _empty_write_ahead_file(self) -> None:
        """Remove deleted requests from the write-ahead file of the journal, too: a task may be forgotten."""
        with self._commit_lock:
            if self._is_open:
                self._journal.db.empty_write_ahead_file()

    def confirm(self) -> None:
        """Do nothing: a model in shards has no copy."""

    @property
    def snapshot_record(self) -> NoReturn:
        raise _in_shards_error("has no single log")

    @property
    def oldest_snapshot(self) -> NoReturn:
        raise _in_shards_error("has no single log")

    def records_after(self, position: int) -> NoReturn:
        raise _in_shards_error("has no single log")

    def content(self) -> NoReturn:
        raise _in_shards_error("has no single model file")

    def restore(self, content: bytes, swapping: AbstractContextManager[Any] | None = None) -> NoReturn:
        raise _in_shards_error("cannot be replaced by a model file")

    def backup(self, path: Path) -> NoReturn:
        raise _in_shards_error("cannot be backed up to one file")

    def answers_to(self, prefix: str) -> dict[str, Learned]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        with self._commit_lock:
            return dict(self._journal.answers_to(prefix))

    def close(self) -> None:
        """Stop the workers, each shard with a snapshot, and release the directory."""
        with self._commit_lock:
            if self._is_open:
                self._is_open = False
                try:
                    self.model.close()
                finally:
                    self._journal.close()
                    self._lock.release()


def _unfinished_error(error: Exception) -> Unfinished:
    return Unfinished(
        f"service: a shard failed: {_describe(error)}. The request is on disk and will be learned before any other. To "
        "get its answer, send it again with the same key. If it had no key, do not send it again."
    )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(str(error), 200)}"


def _cannot_correct_error() -> InShards:
    return InShards(
        "service: a model in shards cannot be corrected. Learn the correct label as a new example instead."
    )


def _in_shards_error(reason: str) -> InShards:
    return InShards(
        f"service: a model in shards {reason}. POST snapshot lets every shard write its snapshot. To copy the model, "
        "stop the service and call ShardedModel.open(directory).save(target)."
    )
