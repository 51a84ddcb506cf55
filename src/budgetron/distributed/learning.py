"""Learning in a sharded model: validate a call, divide its rows by shard, send them, and collect the margins.

`ShardLearning` is a base class of `ShardedModel`, whose process is the coordinator. A block passes through
`input_validation`, `placement`, `routing` and `worker_group`, all in the coordinator, and then through `worker`. The
coordinator must validate a block completely before any shard learns a row of it. It must ask all shards about a key
before any of them learns, unless the key is known to be new.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.deciding import ShardDeciding
from budgetron.distributed.input_validation import ValidatedBlock
from budgetron.distributed.split.routing import Job, batches
from budgetron.distributed.workers.worker import OTHER_ROWS
from budgetron.durable import KeyReused, Request, row_digests
from budgetron.durable.requests import check_key, key_reused_error
from budgetron.errors import InputError, input_error, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.input.validation import Examples

Margins = NDArray[np.float64]
MAX_KEY_LENGTH = 180  # logs accept 200 characters, and earlier versions appended the position of a row to the key


@dataclass(frozen=True)
class ConvertedRequest:
    """A request whose examples are converted (`validation.convert`), but not checked yet."""

    examples: Examples
    key: str | None = None
    classes: Any = None


class ShardLearning(ShardDeciding):
    """The methods of a sharded model that learn."""

    block: int
    in_flight: int
    rebalance_every: int
    _validation_lock: threading.Lock
    _graphs: dict[int, TaskGraph]
    _unrecorded = False  # whether a block changed `InputValidator.known_facts`, and the record is not written yet

    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        tasks: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        key: str | None = None,
    ) -> Self:
        """Learn the rows in order. `key` is an idempotency key, as for `predict_then_learn`."""
        arguments = {"tasks": tasks, "classes": classes, "sample_weight": sample_weight, "offset": offset}
        self.predict_then_learn(X, y, **arguments, key=key)
        return self

    def predict_then_learn(
        self,
        X: Any,
        y: Any,
        *,
        tasks: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        key: str | None = None,
    ) -> Margins:
        """Learn the rows in order, and return the margin of each row just before it was learned.

        With a directory, everything is on disk when this returns, and `key` is an idempotency key: a second call with
        the same key and rows returns the first answer and learns nothing, so a call that failed can be retried. Shards
        that learned their rows before a call failed do not learn them again, even if `block` has changed. Each shard
        stores the answers of its last 100,000 messages, at most 64 MiB; the margins of older rows are NaN. Without a
        directory, `key` has no effect.
        """
        examples = self._get_validator().convert(X, y, tasks, sample_weight, offset)
        validated = self._validate(ConvertedRequest(examples, key, classes))
        self._prepare()
        job = self._mark_learned(self._new_job(validated, key))
        margins = self._learn_job(job)
        self._count_rows(margins, validated.block.labels, job.learned)
        return margins

    def learn_many(self, requests: Sequence[Request]) -> list[Margins | Exception]:
        """Learn several requests in order. Small ones are sent to the workers together.

        Returns margins or an exception per request. No shard learns a row of a rejected request. Errors of workers or
        disks are raised; requests with keys can then be sent again.
        """
        jobs = self._learn_requests([self._convert(request) for request in requests], new_keys=False)
        for job in jobs:
            if not isinstance(job, Exception):
                self._count_rows(job.margins, job.validated.block.labels, job.learned)
        return [job if isinstance(job, Exception) else job.margins for job in jobs]

    def _convert(self, request: Request) -> ConvertedRequest | Exception:
        try:
            arguments = (request.X, request.y, request.tasks, request.sample_weight, request.offset)
            examples = self._get_validator().convert(*arguments)
        except InputError as error:
            return error
        return ConvertedRequest(examples, request.key, request.classes)

    def learn_converted(
        self, requests: Sequence[ConvertedRequest | Exception], new_keys: bool = False
    ) -> list[Margins | Exception]:
        """Learn requests whose examples have been converted. An exception among them is returned as its own answer.

        With `new_keys=True` the caller guarantees that no row was sent under one of the keys before, so the shards are
        not asked about them.
        """
        jobs = self._learn_requests(requests, new_keys)
        return [job if isinstance(job, Exception) else job.margins for job in jobs]

    def _learn_requests(
        self, requests: Sequence[ConvertedRequest | Exception], new_keys: bool
    ) -> list[Job | Exception]:
        """Learn requests in order. Returns a job with its margins, or an exception, per request."""
        jobs: list[Job | Exception] = []
        together: dict[str | None, Job] = {}  # the jobs that are sent together, by their keys
        for request in requests:
            if isinstance(request, Exception):
                jobs.append(request)
                continue
            try:
                validated = self._validate(request)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                jobs.append(error)
                continue
            self._prepare()
            if request.key in together:
                # Learn the first request with this key now, so that its shards know the key when they are asked.
                self._learn_together(list(together.values()))
                together.clear()
            try:
                job = self._mark_learned(self._new_job(validated, request.key, new_keys))
            except KeyReused as error:
                jobs.append(error)
                continue
            jobs.append(job)
            if self._interval() is None:
                together[job.key] = job
            else:  # rebalancing or exchange happens between blocks, so requests are learned one by one
                self._learn_job(job)
        if together:
            self._learn_together(list(together.values()))
        return jobs

    def _learn_together(self, jobs: Sequence[Job]) -> None:
        """Learn jobs in shared messages, without maintenance between them."""
        with self._workers.locked(np.unique(np.concatenate([job.shards for job in jobs])).tolist()):
            self._run("learn", jobs)

    def learn_one(
        self,
        x: Any,
        y: Any,
        *,
        task: Hashable = None,
        classes: Any = None,
        sample_weight: float | None = None,
        offset: Any = None,
    ) -> Any:
        """Learn one example and return its margin before the update. Larger blocks are far cheaper per example."""
        if np.ndim(y):
            raise input_error(type(self).__name__, "y", "one label", shown(y), "Use partial_fit for several.")
        row, tasks = self._get_validator().one_row(x, task)
        weights = None if sample_weight is None else [sample_weight]
        offsets = None if offset is None else [offset]
        margins = self.predict_then_learn(row, [y], tasks=tasks, classes=classes, sample_weight=weights, offset=offsets)
        return float(margins[0]) if margins.ndim == 1 else margins[0]

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights. Other tasks do not change. An unknown task is no error."""
        self._check_fitted()
        shard = int(self._placement.shards_of_tasks([task])[0])
        self._workers.call_owner(shard, "forget", task)

    def _validate(self, request: ConvertedRequest) -> ValidatedBlock:
        """Validate a request for all shards. If it is rejected, nothing changes."""
        check_key(request.key, MAX_KEY_LENGTH)
        validator = self._get_validator()
        with self._validation_lock:
            facts = validator.known_facts
            validator.learner.check_streaming()
            validated = validator.validate_examples(request.examples, request.classes)
            self._unrecorded |= facts != validator.known_facts
        return validated

    def _prepare(self) -> None:
        """Start the shards if this is the first block, and record new properties of the input."""
        with self._validation_lock:
            if not self._is_fitted:
                self._begin()
            elif self._unrecorded:
                self._write_record()
            self._unrecorded = False

    def _new_job(self, validated: ValidatedBlock, key: str | None, is_new: bool = False) -> Job:
        """A job to learn a block. Without a key it gets a random one, because messages may have to be sent again."""
        block = validated.block
        self._busy_tasks.count([None] if block.tasks is None else block.tasks)
        digests = None
        if key is not None and not is_new and self.directory is not None:
            content = row_digests(block.rows, block.labels, block.tasks, validated.sample_weight, block.offsets)
            # The number of rows is part of each hash. So a later call with only some of these rows is a reused key.
            digests = np.frombuffer(content, "<u8") ^ np.uint64(validated.n)
        shards = self._placement.shards_of(validated)
        return Job(validated, shards, self._empty_margins(validated.n), key or secrets.token_hex(8), digests)

    def _empty_margins(self, n: int) -> Margins:
        outputs = self._validator.classes.n_outputs
        return np.empty(n if outputs == 1 else (n, outputs))

    def _learn_job(self, job: Job) -> Margins:
        """Learn the rows of a job in steps, with maintenance between them. Returns the margins."""
        interval = self._interval()
        # Maintenance also runs within a long call. Steps are multiples of `block`, so only the last batch is short.
        step = job.n if interval is None else max(1, interval // self.block) * self.block
        for start in range(0, job.n, step):
            rows = range(start, min(start + step, job.n))
            with self._workers.locked(job.shards[rows.start : rows.stop].tolist()):
                self._run("learn", [job], rows)
            self._examples_since_maintenance += job.n_new(rows)  # rows of a retry do not count
            if interval is not None and self._examples_since_maintenance >= interval:
                self._maintain()
        return job.margins

    def _mark_learned(self, job: Job) -> Job:
        """Mark the rows of a job that were learned before under its key. Raises `KeyReused` for other rows.

        All shards are asked before any of them learns, so that a key with other rows changes nothing.
        """
        if job.digests is None:
            return job
        learned = np.zeros(job.n, dtype=bool)
        messages = list(job.positions())
        with self._workers.locked([message.shard for message in messages]):
            (counts,) = self._workers.stream("check_keys", [messages], self.in_flight)
        for message, n in zip(messages, counts, strict=True):
            if n == OTHER_ROWS:
                raise key_reused_error(job.key)
            assert message.rows is not None
            learned[message.rows.places[:n]] = True
        return replace(job, learned=learned)

    def _interval(self) -> int | None:
        """Examples between two runs of `_maintain`, or None if there is nothing to maintain."""
        return self.rebalance_every if self.shares == "demand" else None

    def _maintain(self) -> None:
        """Rebalance the shares, every `_interval` examples. A `ReplicatedModel` exchanges weights instead."""
        self.rebalance()

    def _run(self, method: str, jobs: Sequence[Job], rows: range | None = None) -> None:
        """Send jobs (or some of their rows) to the shards, and write the margins in the caller's order."""
        plan = list(batches(jobs, rows or range(max(job.n for job in jobs)), self.block))
        messages = ([job.message(cut, self._graph_of(cut.shard)) for job, cut in batch] for batch in plan)
        for batch, answers in zip(plan, self._workers.stream(method, messages, self.in_flight), strict=True):
            for (job, cut), answer in zip(batch, answers, strict=True):
                job.put(cut, answer)

    def _graph_of(self, shard: int) -> TaskGraph:
        """The task graph of a shard. Cutting an explicit graph is slow, so the parts are cached."""
        if shard not in self._graphs:
            self._graphs[shard] = self._placement.graph_of(shard)
        return self._graphs[shard]
