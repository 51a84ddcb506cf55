"""`ShardedModel`: one model in shards, in threads of this process or on a Ray cluster.

    task → component → shard → worker

A shard is a learner with its own share of the budget. Tasks of different components never influence each other. So each
shard computes exactly the margins of a local learner with that share and the same kernel, which gets only the rows of
the shard's tasks. The number of workers makes no difference. (With ``gamma="scale"``, the first block determines one γ
for all shards. With sparse rows and a budget in bytes, it also determines how the memory of every shard is planned.)
The process that has the `ShardedModel` is called the coordinator.

Learning is in `learning`, files are in `on_disk`, statistics in `introspection`. This file has the parameters,
prediction, and the start and end of the workers.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from budgetron.distributed.input_validation import InputValidator
from budgetron.distributed.learning import ShardLearning
from budgetron.distributed.split.busy_tasks import BusyTasks
from budgetron.distributed.split.placement import WHO, Placement, check_pins
from budgetron.distributed.split.routing import Job
from budgetron.distributed.split.shares import check_policy, first_shares, least_bytes, too_few_bytes_error
from budgetron.distributed.workers.worker import folder_of
from budgetron.distributed.workers.worker_group import WorkerGroup
from budgetron.distributed.workers.worker_pool import LocalPool, WorkerPool
from budgetron.engine.memory import budget_of
from budgetron.engine.registry import rule_class
from budgetron.errors import TooFewBytes, input_error, is_integer, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.estimators.budgetron import probabilities
from budgetron.learners.input.classes import in_known_spelling

Margins = NDArray[np.float64]
BACKENDS = ("local", "ray")


class ShardedModel(ShardLearning, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model in shards, split by connected component of the task graph. Each shard has a share of the budget.

    Parameters
    ----------
    learner : a learner of budgetron
        The learner of every shard, with the whole task graph. Its `budget` is the total, which is divided among the
        shards: stored examples, or bytes of all shards' models together.
    shards : int, default=8
        The number of shards, fixed for the life of the model. Results depend on it, but not on `workers`.
    workers : int, default=1
        The initial number of threads or Ray actors; see `add_worker` and `remove_worker`.
    backend : {"local", "ray"}, default="local"
        Threads of this process, or actors of a Ray cluster.
    directory : path, optional
        The directory of the logs and snapshots. With it, every block is on disk before it is acknowledged, and
        `ShardedModel.open` continues the model. Ray needs a directory that all nodes share.
    shares : {"fixed", "demand"}, default="fixed"
        Equal shares of the budget, or shares that follow the mistakes of each shard.
    rebalance_every : int, default=50000
        Examples, at least, between two moves of shares with ``shares="demand"``.
    pins : mapping from task to shard, optional
        Assigns the component of a task to a shard. To assign a shard to a worker, see `pin`.
    block : int, default=1024
        Rows per message to the workers, at least 128.
    in_flight : int, default=4
        Blocks that may be in progress at the same time. Beyond that, the caller waits.
    snapshot_every : int, default=50000
        Examples between two snapshots of a shard. A snapshot trims the shard's log.
    patience : float, default=60
        Timeout of a call to a Ray worker in seconds, after which the worker counts as lost.
    ray_options : dict, optional
        Options of every Ray actor, such as ``{"num_cpus": 0.5}`` or a scheduling strategy. A spare process that has
        imported everything takes the place of a lost worker; ``{"spare": False}`` starts none.

    Attributes
    ----------
    shards_ : list of Shard
        The statistics of each shard, and its worker.
    classes_, kernel_ : determined by the first block, except for classes that a later block completes
    n_seen_, n_mistakes_, n_stored_, memory_bytes_, capacity_ : int
        Over all shards. `memory_bytes_` does not include what the coordinator needs, which is bounded: the empty
        prototype that validates input, blocks in progress, and the counters of `busy_tasks`.
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

    # ---- predicting

    def decision_function(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> Margins:
        """The margins: (n,), positive for ``classes_[1]``; or (n, classes)."""
        self._check_fitted()
        validated = self._validator.validate_rows(X, tasks, offset)
        job = Job(validated, self._placement.shards_of(validated), self._empty_margins(validated.n))
        self._run("margins", [job])
        return job.margins

    def predict(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> NDArray[Any]:
        """Predict labels. A margin of zero is ``classes_[0]``."""
        margins = self.decision_function(X, tasks=tasks, offset=offset)
        return self._validator.classes.of_margins(margins)

    @available_if(lambda self: hasattr(self.learner, "predict_proba"))  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> NDArray[np.float64]:
        """The probability of each class, (n, classes), if the learner has probabilities."""
        return probabilities(self.decision_function(X, tasks=tasks, offset=offset))

    def predict_one(self, x: Any, *, task: Hashable = None, offset: Any = None) -> Any:
        """The label of one example, an array row or a dict of features."""
        self._check_fitted()
        row, tasks = self._validator.one_row(x, task)
        label = self.predict(row, tasks=tasks, offset=None if offset is None else [offset])[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """The accuracy: the share of rows whose label is predicted correctly."""
        predicted = self.predict(X, tasks=tasks, offset=offset)
        correct = predicted == in_known_spelling(self.classes_, np.ravel(y), type(self).__name__)
        return float(np.average(correct, weights=sample_weight))

    # ---- start and end

    def _get_validator(self) -> InputValidator:
        if not hasattr(self, "_validator"):
            validator = InputValidator(self.learner, type(self).__name__, self._first_budgets)
            self._check_parameters()
            self._validator = validator
            self._validation_lock = threading.Lock()
        return self._validator

    def _check_parameters(self) -> None:
        who = type(self).__name__
        for name, least in (("shards", 1), ("workers", 1), ("block", 128), ("in_flight", 1), ("rebalance_every", 1)):
            value = getattr(self, name)
            if not is_integer(value) or value < least:
                raise input_error(who, name, f"an integer >= {least}", shown(value))
        if self.backend not in BACKENDS:
            raise input_error(who, "backend", '"local" or "ray"', shown(self.backend))
        policy = check_policy(self.shares, getattr(self.learner, "budget", None))
        if policy == "demand" and not rule_class(self.learner.rule).needs_kernel:
            name = type(self.learner).__name__
            raise input_error(who, "shares", f'"fixed" for a {name}, which stores no examples to move', '"demand"',
                              "Leave shares out.")  # fmt: skip
        self._new_placement()
        self._first_budgets()
        self._check_directory()

    def _new_placement(self) -> Placement:
        return Placement(self.learner.graph, self.shards, check_pins(self.pins))

    def _first_budgets(self, validator: InputValidator | None = None) -> list[int | str | None]:
        """The share of the budget of each shard.

        With a `validator` that has seen the first block, shares of bytes are checked against the needs of a model.
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
                raise too_few_bytes_error(WHO, "shard", total, self.shards, least)
        return shares

    def _begin(self, models: list[Any] | None = None) -> None:
        """Start the shards with the given models, or with new ones for the first block."""
        self._set_up(term=1)
        if models is None:
            models = self._new_models()
            self._validator.release_first_rows()
        if self.directory is not None:
            # Folders without a record are left from a start that failed. Nothing in them was acknowledged.
            for shard in range(self.shards):
                shutil.rmtree(Path(self.directory) / folder_of(shard), ignore_errors=True)
        self._start(models)
        self._write_record()

    def _new_models(self) -> list[Any]:
        """The models that the shards start with, after the first block has been validated."""
        budgets = self._first_budgets(self._validator)
        return [self._validator.new_shard_model(budget, self._placement.graph_of(shard))
                for shard, budget in enumerate(budgets)]  # fmt: skip

    def _reopen(self, term: int) -> None:
        """Start the shards from their logs, as the successor of the coordinator of this term."""
        # The record is written first: after a crash the next coordinator has a higher term, and no epoch is used twice.
        self._set_up(term + 1)
        self._write_record()
        self._start(None)

    def _set_up(self, term: int) -> None:
        """Create the placement, the locks and the counters that the start of the shards needs."""
        if not hasattr(self, "_validation_lock"):
            self._validation_lock = threading.Lock()
        self._placement = self._new_placement()
        self._term = term
        self._graphs: dict[int, TaskGraph] = {}
        self._busy_tasks = BusyTasks()
        self._rebalancing = threading.Lock()
        self._counting = threading.Lock()
        self._examples_since_maintenance = 0

    def _start(self, models: list[Any] | None) -> None:
        """Start the workers and assign the shards to them. With None the shards recover from their logs."""
        workers = WorkerGroup(self._new_pool(), self.shards, self._term, type(self).__name__)
        try:
            workers.begin(self.workers, models)
        except BaseException:
            workers.close()
            raise
        self._workers = workers
        self._mistakes = [shard.n_mistakes for shard in self._statistics()]

    def _new_pool(self) -> WorkerPool:
        directory = None if self.directory is None else str(Path(self.directory).absolute())
        if self.backend == "local":
            return LocalPool(directory, self.snapshot_every)
        from budgetron.distributed.workers.ray_pool import RayPool

        return RayPool(directory, self.snapshot_every, self.patience, self.ray_options, type(self).__name__)

    def close(self) -> None:
        """Stop the workers. The files in the directory stay."""
        if self._is_fitted:
            if self.operating_point is not None:
                self._write_record()  # it includes the counts of the operating point
            self._workers.close()
            del self._workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
