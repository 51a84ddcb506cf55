"""`ShardedModel`: one model in shards, in threads of this process or on a Ray cluster.

    task → component → shard → worker

A shard is a learner with its own share of the budget. Tasks of different components never influence each other, so each
shard computes exactly the margins of a local learner with that budget on the rows of its tasks, whatever the number
of workers.

A block passes through `input_validation` (here, in the coordinator), `placement`, `routing`, `worker_group` and
`worker`. The coordinator must validate a block completely before any shard learns a row of it.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from budgetron.distributed.busy_tasks import BusyTasks
from budgetron.distributed.input_validation import InputValidator, ValidatedBlock
from budgetron.distributed.on_disk import OnDisk
from budgetron.distributed.placement import WHO, Placement, checked_pins
from budgetron.distributed.routing import Job, batches
from budgetron.distributed.shares import checked_policy, first_shares, least_bytes, refuse_bytes
from budgetron.distributed.worker import folder_of
from budgetron.distributed.worker_group import WorkerGroup
from budgetron.distributed.worker_pool import LocalPool, WorkerPool
from budgetron.durable import Request, row_digests
from budgetron.durable.requests import check_key, key_reused_error
from budgetron.engine.memory import budget_of
from budgetron.errors import InputError, TooFewBytes, is_whole, refuse, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.budgetron import probabilities
from budgetron.learners.validation import Examples

Margins = NDArray[np.float64]
BACKENDS = ("local", "ray")
MAX_KEY_LENGTH = 180  # earlier versions appended the position of a row, and the logs take 200 characters


@dataclass(frozen=True)
class ConvertedRequest:
    """A request whose examples are converted (`validation.convert`) and not checked yet."""

    examples: Examples
    key: str | None = None
    classes: Any = None


class ShardedModel(OnDisk, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model in shards, split by connected component of the task graph. Each shard has a share of the budget.

    Parameters
    ----------
    learner : a learner of budgetron
        The learner of every shard, with the whole task graph. Its `budget` is the total, which is divided among the
        shards: stored examples, or bytes of all shards' models together.
    shards : int, default=8
        The number of shards, fixed for the life of the model. Results depend on it, and do not depend on `workers`.
    workers : int, default=1
        The initial number of threads or Ray actors; see `add_worker` and `remove_worker`.
    backend : {"local", "ray"}, default="local"
        Threads of this process, or actors of a Ray cluster.
    directory : path, optional
        The directory of the logs and snapshots. With it, every block is on disk before it is acknowledged, and
        `ShardedModel.open` continues the model. Ray needs one that all nodes share.
    shares : {"fixed", "demand"}, default="fixed"
        Equal shares of the budget, or shares that follow the mistakes of each shard.
    rebalance_every : int, default=50000
        Examples between two moves of shares with ``shares="demand"``.
    pins : mapping from task to shard, optional
        Assigns the component of a task to a shard. To assign a shard to a worker, see `pin`.
    block : int, default=1024
        Rows per message to the workers, at least 128.
    in_flight : int, default=4
        Blocks that may be under way at the same time; after that the caller waits.
    snapshot_every : int, default=50000
        Examples between two snapshots of a shard, each of which trims its log.
    patience : float, default=60
        Timeout of a call to a Ray worker in seconds, after which the worker counts as lost.
    ray_options : dict, optional
        Options of every Ray actor, such as ``{"num_cpus": 0.5}`` or a scheduling strategy.

    Attributes
    ----------
    shards_ : list of Shard
        The statistics of each shard, and its worker.
    classes_, kernel_ : determined by the first block
    n_seen_, n_mistakes_, n_stored_, memory_bytes_, capacity_ : int
        Over all shards. `memory_bytes_` leaves out what does not grow with learning: the empty prototype with which the
        coordinator validates input, blocks under way, and the counters of `busy_tasks`.
    budget_share_ : dict
        Each task's current share of the stored examples.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import SharedProjectron, graphs, kernels
    >>> from budgetron.distributed import ShardedModel
    >>> rng = np.random.default_rng(0)
    >>> X, users = rng.normal(size=(400, 2)), rng.integers(0, 20, size=400)
    >>> y = np.where((X[:, 0] > 0) ^ (users % 2 == 0), "spam", "ham")
    >>> learner = SharedProjectron(budget=60, graph=graphs.disconnected(), kernel=kernels.Linear(bias=1.0))
    >>> with ShardedModel(learner, shards=4, workers=2) as model:
    ...     margins = model.predict_then_learn(X, y, tasks=users)
    ...     print(model.n_seen_, model.capacity_, model.predict([[2.0, 0.0]], tasks=[7]))
    400 60 ['spam']
    """

    _unrecorded = False  # whether a block determined something that is not in the record yet

    def __init__(
        self,
        learner: Any,
        shards: int = 8,
        workers: int = 1,
        backend: str = "local",
        directory: Any = None,
        shares: str = "fixed",
        rebalance_every: int = 50_000,
        pins: Mapping[Any, int] | None = None,
        block: int = 1024,
        in_flight: int = 4,
        snapshot_every: int = 50_000,
        patience: float = 60.0,
        ray_options: dict[str, Any] | None = None,
    ) -> None:
        self.learner = learner
        self.shards = shards
        self.workers = workers
        self.backend = backend
        self.directory = directory
        self.shares = shares
        self.rebalance_every = rebalance_every
        self.pins = pins
        self.block = block
        self.in_flight = in_flight
        self.snapshot_every = snapshot_every
        self.patience = patience
        self.ray_options = ray_options

    # ---- learning

    def partial_fit(
        self, X: Any, y: Any, *, tasks: Any = None, classes: Any = None, sample_weight: Any = None,
        key: str | None = None,
    ) -> Self:
        """Learn the rows in order. `key` is an idempotency key, as for `predict_then_learn`."""
        self.predict_then_learn(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight, key=key)
        return self

    def predict_then_learn(
        self, X: Any, y: Any, *, tasks: Any = None, classes: Any = None, sample_weight: Any = None,
        key: str | None = None,
    ) -> Margins:
        """Learn the rows in order, and return the margin of each row just before it was learned.

        With a directory, everything is on disk when this returns. `key` is an idempotency key: a second call with the
        same key and rows returns the first answer and learns nothing, so a call that failed can be retried. Shards that
        learned their rows before a call failed do not learn them again, even if `block` has changed. Each shard stores
        the answers of its last 100,000 messages; the margins of older rows are NaN.
        """
        examples = self._get_validator().convert(X, y, tasks, sample_weight)
        validated = self._validated(ConvertedRequest(examples, key, classes))
        self._prepare()
        job = self._new_job(validated, key)
        if not self._have_same_keys([job])[0]:
            raise key_reused_error(key)
        return self._learned(job)

    def learn_many(self, requests: Sequence[Request]) -> list[Margins | Exception]:
        """Learn several requests in order, in one round trip to the workers.

        Returns margins or an exception per request. No shard learns a row of a rejected request. Errors of workers or
        disks are raised; requests with keys can then be sent again.
        """
        return self.learn_converted([self._converted(request) for request in requests])

    def _converted(self, request: Request) -> ConvertedRequest | Exception:
        try:
            examples = self._get_validator().convert(request.X, request.y, request.tasks, request.sample_weight)
        except InputError as error:
            return error
        return ConvertedRequest(examples, request.key, request.classes)

    def learn_converted(
        self, requests: Sequence[ConvertedRequest | Exception], new_keys: bool = False
    ) -> list[Margins | Exception]:
        """The same for requests whose examples are converted already; an exception among them is its own answer.

        `new_keys=True` promises that none of the keys was ever sent before, not even in part, which saves asking the
        shards for them.
        """
        answers: list[Any] = [None] * len(requests)
        jobs: dict[int, Job] = {}
        for place, request in enumerate(requests):
            if isinstance(request, Exception):
                answers[place] = request
                continue
            try:
                validated = self._validated(request)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                answers[place] = error
                continue
            self._prepare()
            job = self._new_job(validated, request.key, new_keys)
            if not (new_keys or self._have_same_keys([job])[0]):
                answers[place] = key_reused_error(request.key)
            elif self._interval() is None:
                jobs[place] = job
            else:  # rebalancing or exchange happens between blocks, so requests are learned one by one
                answers[place] = self._learned(job)
        if jobs:
            with self._workers.locked(np.unique(np.concatenate([job.shards for job in jobs.values()])).tolist()):
                self._run("learn", list(jobs.values()))
        for place, job in jobs.items():
            answers[place] = job.margins
        return answers

    def learn_one(
        self, x: Any, y: Any, *, task: Hashable = None, classes: Any = None, sample_weight: float | None = None
    ) -> Any:
        """Learn one example and return its margin before the update. Larger blocks are far cheaper per example."""
        if np.ndim(y):
            raise refuse(WHO, "y", "one label", shown(y), "Use partial_fit for several.")
        row, tasks = self._get_validator().one_row(x, task)
        weights = None if sample_weight is None else [sample_weight]
        margins = self.predict_then_learn(row, [y], tasks=tasks, classes=classes, sample_weight=weights)
        return float(margins[0]) if margins.ndim == 1 else margins[0]

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights. Other tasks do not change."""
        self._check_begun()
        shard = int(self._placement.shards_of_tasks([task])[0])
        self._workers.call_owner(shard, "forget", task)

    def _validated(self, request: ConvertedRequest) -> ValidatedBlock:
        """Validate a request for all shards. If it is rejected, nothing changes."""
        check_key(request.key, MAX_KEY_LENGTH)
        validator = self._get_validator()
        with self._validation_lock:
            settled = validator.settled  # to see whether this block adds something that belongs into the record
            validator.learner.check_streaming()
            validated = validator.validate_examples(request.examples, request.classes)
            self._unrecorded |= settled != validator.settled
        return validated

    def _prepare(self) -> None:
        """Start the shards if this is the first block, and write to the record what the block determined."""
        with self._validation_lock:
            if not self._begun:
                self._begin()
            elif self._unrecorded:
                self._write_record()
            self._unrecorded = False

    def _new_job(self, validated: ValidatedBlock, key: str | None, is_new: bool = False) -> Job:
        """A job to learn a block. Without a key it gets a random one: messages may be sent again after a failure."""
        block = validated.block
        self._busy_tasks.count([None] if block.tasks is None else block.tasks)
        digests = None
        if key is not None and not is_new and self.directory is not None:
            content = row_digests(block.rows, block.labels, block.tasks, validated.sample_weight)
            # The number of rows is mixed in, so that a part of the rows under the same key is a different call.
            digests = np.frombuffer(content, "<u8") ^ np.uint64(validated.n)
        shards = self._placement.shards_of(validated)
        return Job(validated, shards, self._empty_margins(validated.n), key or secrets.token_hex(8), digests)

    def _empty_margins(self, n: int) -> Margins:
        outputs = self._validator.classes.n_outputs
        return np.empty(n if outputs == 1 else (n, outputs))

    def _learned(self, job: Job) -> Margins:
        interval = self._interval()
        # Steps are whole blocks, so that maintenance happens at the same rows for every size of the call.
        step = job.n if interval is None else max(1, interval // self.block) * self.block
        for start in range(0, job.n, step):
            rows = range(start, min(start + step, job.n))
            with self._workers.locked(job.shards[rows.start : rows.stop].tolist()):
                self._run("learn", [job], rows)
            self._examples_since += len(rows)
            if interval is not None and self._examples_since >= interval:
                self._maintain()
        return job.margins

    def _have_same_keys(self, jobs: Sequence[Job]) -> list[bool]:
        """For each job, whether its key is new or was used with the same rows.

        All shards are asked before any of them learns, so that a key with other rows changes nothing.
        """
        answers = []
        for job in jobs:
            if job.digests is None:
                answers.append(True)
                continue
            with self._workers.locked(job.shards.tolist()):
                found = self._workers.stream("check_keys", [list(job.positions())], self.in_flight)
                answers.append(all(is_same for shards in found for is_same in shards))
        return answers

    def _interval(self) -> int | None:
        """Examples between two runs of `_maintain`, or None if there is nothing to maintain."""
        return self.rebalance_every if self.shares == "demand" else None

    def _maintain(self) -> None:
        self.rebalance()

    def _run(self, method: str, jobs: Sequence[Job], rows: range | None = None) -> None:
        """Send jobs (or some of their rows) to the shards, and write the margins in the caller's order."""
        plan = list(batches(jobs, rows or range(max(job.n for job in jobs)), self.block))
        messages = ([job.message(cut, self._graph_of(cut.shard)) for job, cut in batch] for batch in plan)
        for batch, answers in zip(plan, self._workers.stream(method, messages, self.in_flight), strict=True):
            for (job, cut), answer in zip(batch, answers, strict=True):
                job.put(cut, answer)

    def _graph_of(self, shard: int) -> TaskGraph:
        """The task graph of a shard. Cutting an explicit graph is slow, so the parts are kept."""
        if shard not in self._graphs:
            self._graphs[shard] = self._placement.graph_of(shard)
        return self._graphs[shard]

    # ---- predicting

    def decision_function(self, X: Any, *, tasks: Iterable[Any] | None = None) -> Margins:
        """The margins: (n,), positive for ``classes_[1]``; or (n, classes)."""
        self._check_begun()
        validated = self._validator.validate_rows(X, tasks)
        job = Job(validated, self._placement.shards_of(validated), self._empty_margins(validated.n))
        self._run("margins", [job])
        return job.margins

    def predict(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[Any]:
        """Predict labels. A margin of zero is ``classes_[0]``."""
        margins = self.decision_function(X, tasks=tasks)
        return self._validator.classes.of_margins(margins)

    @available_if(lambda self: hasattr(self.learner, "predict_proba"))  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """The probability of each class, (n, classes), if the learner has probabilities."""
        return probabilities(self.decision_function(X, tasks=tasks))

    def predict_one(self, x: Any, *, task: Hashable = None) -> Any:
        """The label of one example, an array row or a dict of features."""
        self._check_begun()
        row, tasks = self._validator.one_row(x, task)
        label = self.predict(row, tasks=tasks)[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> float:
        """The accuracy: the share of rows whose label is predicted correctly."""
        return float(np.average(self.predict(X, tasks=tasks) == np.asarray(y).ravel(), weights=sample_weight))

    # ---- start and end

    def _get_validator(self) -> InputValidator:
        if not hasattr(self, "_validator"):
            validator = InputValidator(self.learner, self._first_budgets)
            self._check_parameters()
            self._validator = validator
            self._validation_lock = threading.Lock()
        return self._validator

    def _check_parameters(self) -> None:
        for name, least in (("shards", 1), ("workers", 1), ("block", 128), ("in_flight", 1), ("rebalance_every", 1)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise refuse(WHO, name, f"an integer >= {least}", shown(value))
        if self.backend not in BACKENDS:
            raise refuse(WHO, "backend", '"local" or "ray"', shown(self.backend))
        checked_policy(self.shares, getattr(self.learner, "budget", None))
        self._new_placement()
        self._first_budgets()
        self._check_directory()

    def _new_placement(self) -> Placement:
        return Placement(self.learner.graph, self.shards, checked_pins(self.pins))

    def _first_budgets(self, validator: InputValidator | None = None) -> list[int | str | None]:
        """The share of the budget of each shard.

        With a `validator` that has seen the first block, shares of bytes are checked against what a model needs.
        """
        budget = getattr(self.learner, "budget", None)
        shares = first_shares(budget, self.shards)
        total = budget_of(WHO, budget).bytes
        if validator is not None and total is not None:
            placement, least = self._new_placement(), 0
            for shard, share in enumerate(shares):
                plan = partial(validator.shard_settings, graph=placement.graph_of(shard))
                try:
                    plan(share)
                except TooFewBytes:
                    least = max(least, least_bytes(plan)[0])
            if least:
                raise refuse_bytes(WHO, "shard", total, self.shards, least)
        return shares

    def _begin(self, models: list[Any] | None = None) -> None:
        """Start the shards: new ones after the first block, or with the given models."""
        self._ready(term=1)
        if models is None:
            budgets = self._first_budgets(self._validator)
            models = [self._validator.new_shard_model(budget, self._placement.graph_of(shard))
                      for shard, budget in enumerate(budgets)]  # fmt: skip
            self._validator.release_first_rows()
        if self.directory is not None:
            # Folders without a record are left from a start that failed. Nothing in them was acknowledged.
            for shard in range(self.shards):
                shutil.rmtree(Path(self.directory) / folder_of(shard), ignore_errors=True)
        self._start(models)
        self._write_record()

    def _reopen(self, term: int) -> None:
        # The record goes first: a crash in between then leaves a higher term, and no epoch is ever used twice.
        self._ready(term + 1)
        self._write_record()
        self._start(None)

    def _ready(self, term: int) -> None:
        if not hasattr(self, "_validation_lock"):
            self._validation_lock = threading.Lock()
        self._placement = self._new_placement()
        self._term = term
        self._graphs: dict[int, TaskGraph] = {}
        self._busy_tasks = BusyTasks()
        self._rebalancing = threading.Lock()
        self._examples_since = 0

    def _start(self, models: list[Any] | None) -> None:
        workers = WorkerGroup(self._new_pool(), self.shards, self._term)
        try:
            workers.begin(self.workers, models)
        except BaseException:
            workers.close()
            raise
        self._workers = workers
        self._mistakes = [one.n_mistakes for one in self._statistics()]

    def _new_pool(self) -> WorkerPool:
        directory = None if self.directory is None else str(Path(self.directory).absolute())
        if self.backend == "local":
            return LocalPool(directory, self.snapshot_every)
        from budgetron.distributed.ray_pool import RayPool

        return RayPool(directory, self.snapshot_every, self.patience, self.ray_options)

    def close(self) -> None:
        """Stop the workers. The files in the directory stay."""
        if self._begun:
            self._workers.close()
            del self._workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
