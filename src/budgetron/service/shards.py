"""A model in shards where the service expects a host: the same promises, kept over several logs.

Learning: the request is written to the journal and forced to disk, then sent to its shards, each of which writes its
rows to a log of its own before it learns them; then it is acknowledged. What breaks off in between is finished before
anything else is learned, now or after a restart: so every shard learns its rows in the order of the journal, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from budgetron.distributed import ShardedModel, has_one_component
from budgetron.distributed.record import NAME as RECORD
from budgetron.durable import Learned, Request, blocks
from budgetron.durable.answers import margins_to_bytes
from budgetron.durable.errors import storage_errors
from budgetron.durable.hosted_model import HostedModel
from budgetron.durable.idempotency import Entry, answer_of, entry_of, group_into_commits
from budgetron.durable.ownership import DirectoryLock
from budgetron.durable.store import NAME as HOST
from budgetron.errors import Closed, InputError, refusal, refuse, shown
from budgetron.service.journal import NAME, Journal
from budgetron.service.problems import Refused
from budgetron.service.settings import Settings

_PATIENCE = 0.5  # seconds
FOLDER = "shards"  # below the model's directory, where no other is named


class KeptInShards(HostedModel):
    """What is to be known of rows before they are sent."""

    def __init__(self, model: ShardedModel) -> None:
        self.model, self.columns = model, None

    @property
    def begun(self) -> bool:
        return bool(self.model._begun)

    @property
    def sparse(self) -> bool:
        return bool(self.model._validator.is_sparse)


class ShardedHost:
    """A `ShardedModel` and the journal of what it was asked to learn. `ShardedHost.open` makes one."""

    def __init__(self, directory: Path, lock: DirectoryLock, journal: Journal, model: ShardedModel) -> None:
        self.directory, self._lock, self._journal = directory, lock, journal
        self.model = model
        self.hosted_model = KeptInShards(model)
        self.failing: Exception | None = None  # why something that was written is not learned yet
        self.position = journal.position
        self._writer = threading.Lock()
        self._open = True
        self.replayed = self._finish_earlier()  # examples

    @classmethod
    def open(cls, directory: Path, make_model: Callable[[], Any] | None, settings: Settings) -> Self:
        """Take a directory, new or left by another, and finish what was begun there."""
        with storage_errors(directory / "lock"):
            directory.mkdir(parents=True, exist_ok=True)
            lock = DirectoryLock(directory)
        with ExitStack() as undone:
            undone.callback(lock.release)
            _refuse_another_kind(directory)
            chosen = (directory / FOLDER if settings.ray is None else settings.ray / directory.name).absolute()
            journal = Journal(directory, chosen, settings.shards or 1)
            undone.callback(journal.close)
            if settings.ray is not None and journal.place != chosen:
                accepted = f"{str(journal.place.parent)!r}, where the shards of {directory.name!r} are"
                raise refuse("serve", "--ray", accepted, repr(str(settings.ray)))
            model = _model(journal, make_model, settings)
            undone.callback(model.close)
            host = cls(directory, lock, journal, model)
            undone.pop_all()
        return host

    # ---- learning

    def learn_many(self, requests: Sequence[Request]) -> list[Learned | Exception]:
        """Each request once and for good, refused as a whole or not at all; its exception is in its place."""
        entries: list[Entry | Exception] = []
        for request in requests:
            try:
                entries.append(entry_of(request, self.hosted_model.width, False))
            except InputError as error:
                entries.append(error)
        with self._writer:
            for together in group_into_commits([entry for entry in entries if isinstance(entry, Entry)]):
                self._commit(together)
        return [entry if isinstance(entry, Exception) else answer_of(entry) for entry in entries]

    def _commit(self, entries: list[Entry]) -> None:
        try:
            self._finish_earlier()
            new = self._journal.new_among(entries, self._classes)
            self._append(new)
        except Exception as error:  # nothing of this was written, so nothing is learned
            for entry in entries:
                entry.answer = entry.answer or self._waiting(error)
        else:
            self._learn(new)

    @property
    def _classes(self) -> Any:
        return self.model.classes_ if self.hosted_model.begun else None

    def forget_task(self, task: Hashable) -> Learned:
        """Remove what the shard of a task keeps of it; written down as examples are."""
        entry = Entry(blocks.encode_forget(task))
        with self._writer:
            try:
                self._finish_earlier()
                self._append([entry])
            except Exception as error:
                raise self._waiting(error) from error
            self._learn([entry])
        answer = answer_of(entry)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _append(self, new: list[Entry]) -> None:
        if not self._open:
            raise Closed("Host: this host was closed.")
        if new:
            self._journal.append(new)
            self.position = new[-1].number

    def _learn(self, new: list[Entry]) -> None:
        """Send to the shards what is in the journal. After a failure there, all of it is sent again later."""
        try:
            answers = self._sent([(entry.number, entry.payload) for entry in new], is_new=True)
            self._finish(answers)
        except Exception as error:
            self.failing = error
            for entry in new:
                entry.answer = _unfinished(error)
            return
        for entry, (number, answer) in zip(new, answers, strict=True):
            if isinstance(answer, Learned):
                answer = entry.learned(number, answer.margins, self._classes)
            entry.answer = answer

    def _finish_earlier(self) -> int:
        """Learn what was written and not acknowledged, before anything else; how many examples that was."""
        if not self._journal.any_unfinished():
            self.failing = None
            return 0
        answers = self._sent(self._journal.unfinished())
        self._finish(answers)
        self.failing = None
        return sum(len(answer.margins) for _, answer in answers if isinstance(answer, Learned))

    def _sent(self, written: Sequence[tuple[int, bytes]], is_new: bool = False) -> list[tuple[int, Any]]:
        """What the shards answer to each, or a refusal, which none of them has heard of; a failure is raised."""
        answers: list[tuple[int, Any]] = []
        together: list[tuple[int, blocks.Block]] = []
        for number, rows in written:
            block = blocks.decode_block(rows)
            if block.kind == "forget":
                answers += self._taught(together, is_new)
                answers.append((number, self._forgotten(number, block.tasks[0])))
                together = []
            else:
                together.append((number, block))
        return answers + self._taught(together, is_new)

    def _taught(self, together: list[tuple[int, blocks.Block]], is_new: bool) -> list[tuple[int, Any]]:
        requests = [
            Request(block.X, block.y, block.tasks, f"{self._journal.name}-{number}", block.classes, block.sample_weight)
            for number, block in together
        ]
        margins = self.model.learn_many(requests, new_keys=is_new)
        return [
            (number, found if isinstance(found, Exception) else Learned(number, found))
            for (number, _), found in zip(together, margins, strict=True)
        ]

    def _forgotten(self, number: int, task: Hashable) -> Learned | Exception:
        if self.hosted_model.begun:
            try:
                self.model._validator.locate_task(task)
            except InputError as error:
                return error
            self.model.forget_task(task)
        return Learned(number, np.empty(0))

    def _finish(self, answers: Sequence[tuple[int, Any]]) -> None:
        learned = [(number, margins_to_bytes(one.margins)) for number, one in answers if isinstance(one, Learned)]
        self._journal.finish(learned, [number for number, answer in answers if isinstance(answer, Exception)])

    def _waiting(self, error: Exception) -> Exception:
        """Why nothing is learned now: this disk, or the shards that still have to learn something else."""
        if not self._journal.any_unfinished():
            return error
        self.failing = error
        remedy = "What is on disk already must be learned first. This call wrote nothing: send it again, with its key."
        message = refusal("service", "the shards", "all at work", _words(error), remedy)
        return Refused(503, "unfinished", message, [(b"retry-after", b"1")])

    def check_ready(self) -> None:
        """Raise what `learn_many` would fail with now: of the journal, of a shard's log, or of a lost worker."""
        if not self._writer.acquire(timeout=_PATIENCE):
            if self.failing is not None:
                raise self.failing
            return
        try:
            if not self._open:
                raise Closed("Host: this host was closed.")
            self._journal.try_to_write()
            self._finish_earlier()
            if self.hosted_model.begun:
                self.model._workers.call_all("check_ready")
        finally:
            self._writer.release()

    # ---- what is done with all shards, and what cannot be

    def snapshot(self) -> None:
        """Every shard writes its model and trims its log."""
        if self.hosted_model.begun:
            self.model.snapshot()

    def content(self) -> NoReturn:
        raise _not_whole("GET snapshot")

    def restore(self, content: bytes, swapping: Any = None) -> NoReturn:
        raise _not_whole("PUT snapshot")

    def backup(self, path: Path) -> NoReturn:
        raise _not_whole("GET backup")

    def remembered(self, prefix: str) -> dict[str, Learned]:
        """The remembered keys that begin so, and their first answers."""
        with self._writer:
            return dict(self._journal.answers_to(prefix))

    def close(self) -> None:
        """Stop the workers, each shard with a snapshot, and give the directory up."""
        with self._writer:
            if self._open:
                self._open = False
                try:
                    self.model.close()
                finally:
                    self._journal.close()
                    self._lock.release()


def is_in_shards(directory: Path) -> bool:
    """Whether a model was begun there in shards."""
    return (directory / NAME).is_file()


def _model(journal: Journal, make_model: Callable[[], Any] | None, settings: Settings) -> ShardedModel:
    """The shards that are there; or new ones, which begin with the first block."""
    options: dict[str, Any] = {
        "workers": settings.workers,
        "backend": "local" if settings.ray is None else "ray",
        "block": max(128, settings.limits.examples),  # a request is one message per shard
        "snapshot_every": settings.snapshot_every,
    }
    if (journal.place / RECORD).exists():
        if not journal.position:  # of another coordinator, which opening it would shut out
            came = f"{str(journal.place)!r}, which has shards"
            raise refuse("serve", "--ray", "a directory of its own for a new model", came)
        return ShardedModel.open(journal.place, **options)
    learner = None if make_model is None else make_model()
    if learner is None or hasattr(learner, "_engine"):
        came = "none" if learner is None else "one that has learned already, from a model file"
        raise refuse("serve", "MODEL", "the name of a learner, where a new model is to be in shards", came)
    if journal.shards > 1 and has_one_component(learner.graph):
        raise refuse(
            "serve", "--shards", "1 where the graph of the tasks has one component", f"{journal.shards}",
            'Name a learner with another, such as "Budgetron graph=disconnected".',
        )  # fmt: skip
    return ShardedModel(learner, shards=journal.shards, directory=journal.place, **options)


def _refuse_another_kind(directory: Path) -> None:
    if (directory / HOST).is_file():
        raise refuse(
            "serve", "--shards", "for new models", f"{directory.name!r}, which was begun without",
            "Serve it without --shards and --ray, or give the shards another name.",
        )  # fmt: skip


def _unfinished(error: Exception) -> Refused:
    message = refusal("service", "the shards", "all at work", _words(error),
                      "The request is on disk and will be learned before any other. Send it again with the same key to "
                      "be answered; without a key do not send it again.")  # fmt: skip
    return Refused(503, "unfinished", message, [(b"retry-after", b"1")])


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(str(error), 200)}"


def _not_whole(what: str) -> Refused:
    message = refusal("service", what, "asked of a model in one piece", "a model in shards",
                      "POST snapshot writes every shard; stop the service, and ShardedModel.open(…).save(…) copies "
                      "them.")  # fmt: skip
    return Refused(501, "in_shards", message)
