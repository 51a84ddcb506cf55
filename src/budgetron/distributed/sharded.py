"""`ShardedModel`: one model in shards, in threads of this process or on a Ray cluster.

    task → component → shard → worker

A shard is a learner with its own share of the budget, and components never influence each other: so each shard is
exactly the local learner of that budget on the rows of its tasks, margin for margin, whatever the number of workers.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from budgetron.distributed.crew import Crew, LocalCrew
from budgetron.distributed.door import Admitted, Door
from budgetron.distributed.hot import HotTasks
from budgetron.distributed.on_disk import OnDisk
from budgetron.distributed.placement import WHO, Placement, checked_pins
from budgetron.distributed.routing import Cut, Job, OtherRows, batches
from budgetron.distributed.shares import checked_policy, first_shares, least_bytes, refuse_bytes
from budgetron.distributed.team import Team
from budgetron.distributed.worker import folder_of
from budgetron.durable import KeyReused, Request
from budgetron.durable.idempotency import check_key, reused
from budgetron.engine.memory import budget_of
from budgetron.errors import TooFewBytes, is_whole, refuse, shown
from budgetron.learners.budgetron import probabilities

Margins = NDArray[np.float64]
BACKENDS = ("local", "ray")
LONGEST_KEY = 180  # the shards' logs take 200 characters, and the position of a row comes after the key


class ShardedModel(OnDisk, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model in shards: by connected component of the task graph, each with its own share of the budget.

    Parameters
    ----------
    learner : a learner of budgetron
        What every shard is, with its graph. Its `budget` is the total, which the shards divide: stored examples, or
        bytes of all shards' models together.
    shards : int, default=8
        How many learners there are, for the life of the model. Results depend on this, and not on `workers`.
    workers : int, default=1
        How many threads or Ray actors the shards are divided among at first; see `add_worker` and `remove_worker`.
    backend : {"local", "ray"}, default="local"
    directory : path, optional
        Where the logs and snapshots are. With it every block is on disk before it is acknowledged, and
        `ShardedModel.open` goes on from there. Ray needs one, which all its nodes share.
    shares : {"fixed", "demand"}, default="fixed"
        Equal shares of the budget, or shares that follow the mistakes of each shard.
    rebalance_every : int, default=50000
        Examples after which shares are moved where they follow demand, at the end of a call.
    pins : mapping from task to shard, optional
        Tasks whose component has a shard named for it. For a worker of its own see `pin`.
    block : int, default=1024
        Rows that are cut and sent at a time; 128 at least.
    in_flight : int, default=4
        Blocks that may be under way; past them the caller waits.
    snapshot_every : int, default=50000
        Examples after which a shard writes its model anew and trims its log.
    patience : float, default=60
        Seconds that an answer may take before its worker counts as lost (Ray).
    ray_options : dict, optional
        For every actor, such as ``{"num_cpus": 0.5}`` or a scheduling strategy.

    Attributes
    ----------
    shards_ : list of Shard
        What each shard has seen, stored and may store, and whose it is.
    classes_, kernel_ : what the first block settled
    n_seen_, n_mistakes_, n_stored_, memory_bytes_, capacity_ : int
        Over all shards. `memory_bytes_` leaves out what does not grow with what is learned: an empty model that the
        coordinator checks input with, blocks on their way, and the counters of `hot_tasks`.
    budget_share_ : dict
        Each task's share of the stored examples right now.

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

    _unrecorded = False  # whether a block has settled something that is not in the record yet

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
        """Learn the rows in order, going on from what was learned before."""
        self.predict_then_learn(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight, key=key)
        return self

    def predict_then_learn(
        self, X: Any, y: Any, *, tasks: Any = None, classes: Any = None, sample_weight: Any = None,
        key: str | None = None,
    ) -> Margins:
        """One pass: the decision value of each row as it was just before the row was learned, in the order given.

        With a directory everything is on disk when this returns. The same `key` with the same rows again gives the
        first answer and learns nothing: after an error it is safe to send the block once more. Rows that some shards
        have learned already, from a call that broke off, are not learned again, also where `block` is another now. Of
        rows whose answer is no longer remembered (each shard remembers 100,000 of its blocks) the margin is NaN.
        """
        block = self._admitted(Request(X, y, tasks, key, classes, sample_weight))
        self._prepare()
        return self._learned(block, key)

    def learn_many(self, requests: Sequence[Request], new_keys: bool = False) -> list[Margins | Exception]:
        """Several calls of `predict_then_learn`, sent together and learned in order: one round trip and not one each.

        A request that is refused teaches no shard anything; its exception is in its place. Whatever happens to the
        others on their way is raised: with their keys they may be sent again. `new_keys` says that no key was ever sent
        before, also not in part: then the shards are not asked what they remember of them, which saves a round trip.
        """
        answers: list[Any] = [None] * len(requests)
        jobs: dict[int, Job] = {}
        for place, request in enumerate(requests):
            try:
                block = self._admitted(request)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                answers[place] = error
                continue
            self._prepare()
            if self._interval() is None:
                jobs[place] = self._job(block, request.key)
            else:  # the shards are looked after between the blocks
                answers[place] = self._learned(block, request.key)
        if jobs:
            again = {} if new_keys else {place: job for place, job in jobs.items() if requests[place].key is not None}
            for place, resumed in zip(again, self._resumed(list(again.values())), strict=True):
                if isinstance(resumed, Exception):
                    answers[place] = resumed
                    del jobs[place]
                else:
                    jobs[place] = resumed
        if jobs:
            self._learned_together(list(jobs.values()))
        for place, job in jobs.items():
            answers[place] = job.margins
        return answers

    def learn_one(
        self, x: Any, y: Any, *, task: Hashable = None, classes: Any = None, sample_weight: float | None = None
    ) -> Any:
        """Learn one example. Returns the decision value before the update. Blocks are far cheaper."""
        if np.ndim(y):
            raise refuse(WHO, "y", "one label", shown(y))
        row, tasks = self._door_or_new().one_row(x, task)
        weights = None if sample_weight is None else [sample_weight]
        margins = self.predict_then_learn(row, [y], tasks=tasks, classes=classes, sample_weight=weights)
        return float(margins[0]) if margins.ndim == 1 else margins[0]

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights; all else stays."""
        self._check_begun()
        shard = int(self._placement.shards_of_tasks([task])[0])
        self._team.ask_owner(shard, "forget", task)

    def _admitted(self, request: Request) -> Admitted:
        """What every shard will take; or a refusal, with nothing changed."""
        check_key(request.key, LONGEST_KEY)
        door = self._door_or_new()
        with self._entering:
            settled = door.settled
            door.learner.check_streaming()
            block = door.admit(request.X, request.y, request.tasks, request.classes, request.sample_weight)
            self._unrecorded |= settled != door.settled
        return block

    def _prepare(self) -> None:
        """Make the shards, where this is the first block; and write down what a block has settled."""
        with self._entering:
            if not self._begun:
                self._begin()
            elif self._unrecorded:
                self._write_record()
            self._unrecorded = False

    def _job(self, block: Admitted, key: str | None = None) -> Job:
        """A block to be learned, under this key or one that nobody else has."""
        self._hot.see([None] if block.tasks is None else block.tasks)
        return Job(block, self._placement.shards_of(block), self._room(block), key or secrets.token_hex(8))

    def _room(self, block: Admitted) -> Margins:
        outputs = self._door.classes.n_outputs
        return np.empty(block.n if outputs == 1 else (block.n, outputs))

    def _learned(self, block: Admitted, key: str | None) -> Margins:
        job = self._job(block, key)
        if key is not None:
            resumed = self._resumed([job])[0]
            if isinstance(resumed, Exception):
                raise resumed
            job = resumed
        interval = self._interval()
        step = block.n if interval is None else max(1, interval // self.block) * self.block
        for start in range(0, block.n, step):
            rows = range(start, min(start + step, block.n))
            with self._team.holding(job.shards[rows.start : rows.stop].tolist()):
                self._through("learn", [job], rows)
            self._since += len(job.unlearned(rows.start, rows.stop))
            if interval is not None and self._since >= interval:
                self._care()
        return job.margins

    def _resumed(self, jobs: list[Job]) -> list[Job | Exception]:
        """The jobs without what was learned already under their keys, with the margins of that; or a refusal.

        What the shards remember is sent again as it was cut then, so that their logs compare it and answer: nothing
        is learned by that, so where a key came with other rows no shard has learned any of them.
        """
        if self.directory is None or not jobs:
            return list(jobs)
        found: list[dict[int, list[tuple[int, int]]]] = [{} for _ in jobs]
        for shards in self._team.ask_all("remembered", [job.stem for job in jobs]):
            for shard, by_job in shards.items():
                for remembered, cuts in zip(found, by_job, strict=True):
                    if cuts:
                        remembered[shard] = cuts
        resumed: list[Job | Exception] = []
        for job, remembered in zip(jobs, found, strict=True):
            try:
                if remembered:
                    job, cuts = job.resumed(remembered)
                    with self._team.holding(remembered):
                        self._sent("learn", [[(job, cut)] for cut in cuts])
                resumed.append(job)
            except (OtherRows, KeyReused):
                resumed.append(reused(job.stem))
        return resumed

    def _learned_together(self, jobs: list[Job]) -> None:
        with self._team.holding(np.unique(np.concatenate([job.shards for job in jobs])).tolist()):
            self._through("learn", jobs)

    def _interval(self) -> int | None:
        """Examples after which the shards are looked after."""
        return self.rebalance_every if self.shares == "demand" else None

    def _care(self) -> None:
        self.rebalance()

    def _through(self, method: str, jobs: Sequence[Job], rows: range | None = None) -> None:
        """Cut, send, collect, and put the margins back in the caller's order; of these rows of each job, or of all."""
        self._sent(method, list(batches(jobs, rows or range(max(job.block.n for job in jobs)), self.block)))

    def _sent(self, method: str, plan: list[list[tuple[Job, Cut]]]) -> None:
        parcels = ([job.parcel(cut) for job, cut in batch] for batch in plan)
        for batch, answers in zip(plan, self._team.stream(method, parcels, self.in_flight), strict=True):
            for (job, cut), answer in zip(batch, answers, strict=True):
                job.margins[cut.rows] = answer

    # ---- predicting

    def decision_function(self, X: Any, *, tasks: Iterable[Any] | None = None) -> Margins:
        """The margins: (n,), positive for ``classes_[1]``; or (n, classes)."""
        self._check_begun()
        block = self._door.look(X, tasks)
        job = Job(block, self._placement.shards_of(block), self._room(block))
        self._through("margins", [job])
        return job.margins

    def predict(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[Any]:
        """The labels. A margin of zero is ``classes_[0]``."""
        margins = self.decision_function(X, tasks=tasks)
        return self._door.classes.of_margins(margins)

    @available_if(lambda self: hasattr(self.learner, "predict_proba"))  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """The probability of each class, (n, classes), where the learner gives probabilities."""
        return probabilities(self.decision_function(X, tasks=tasks))

    def predict_one(self, x: Any, *, task: Hashable = None) -> Any:
        """The label of one example, an array row or a dict of features."""
        self._check_begun()
        row, tasks = self._door.one_row(x, task)
        label = self.predict(row, tasks=tasks)[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted right."""
        return float(np.average(self.predict(X, tasks=tasks) == np.asarray(y).ravel(), weights=sample_weight))

    # ---- beginning and ending

    def _door_or_new(self) -> Door:
        if not hasattr(self, "_door"):
            door = Door(self.learner, self._first_budgets)
            self._check_parameters()
            self._door = door
            self._entering = threading.Lock()
        return self._door

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

    def _first_budgets(self, door: Door | None = None) -> list[int | str | None]:
        """The share of each shard. With a `door` that has begun, shares of bytes are checked against what rows take."""
        budget = getattr(self.learner, "budget", None)
        shares = first_shares(budget, self.shards)
        total = budget_of(WHO, budget).bytes
        if door is not None and total is not None:
            placement, least = self._new_placement(), 0
            for shard, share in enumerate(shares):
                plan = partial(door.settings_of, graph=placement.graph_of(shard))
                try:
                    plan(share)
                except TooFewBytes:
                    least = max(least, least_bytes(plan)[0])
            if least:
                raise refuse_bytes(WHO, "shard", total, self.shards, least)
        return shares

    def _begin(self, models: list[Any] | None = None) -> None:
        """Make the shards: new ones after the first block, or given ones."""
        self._ready(term=1)
        if models is None:
            budgets = self._first_budgets(self._door)
            models = [self._door.first_model(budget, self._placement.graph_of(shard))
                      for shard, budget in enumerate(budgets)]  # fmt: skip
            self._door.release_first_rows()
        if self.directory is not None:
            for shard in range(self.shards):  # of a start that was broken off: nothing in it was acknowledged
                shutil.rmtree(Path(self.directory) / folder_of(shard), ignore_errors=True)
        self._start(models)
        self._write_record()

    def _reopen(self, term: int) -> None:
        self._ready(term + 1)
        self._write_record()
        self._start(None)

    def _ready(self, term: int) -> None:
        if not hasattr(self, "_entering"):
            self._entering = threading.Lock()
        self._placement = self._new_placement()
        self._term = term
        self._hot = HotTasks()
        self._rebalancing = threading.Lock()
        self._since = 0

    def _start(self, models: list[Any] | None) -> None:
        team = Team(self._crew(), self.shards, self._term)
        try:
            team.begin(self.workers, models)
        except BaseException:
            team.close()
            raise
        self._team = team
        self._mistakes = [fact.n_mistakes for fact in self._facts()]

    def _crew(self) -> Crew:
        directory = None if self.directory is None else str(Path(self.directory).absolute())
        if self.backend == "local":
            return LocalCrew(directory, self.snapshot_every)
        from budgetron.distributed.ray_crew import RayCrew

        return RayCrew(directory, self.snapshot_every, self.patience, self.ray_options)

    def close(self) -> None:
        """Stop the workers; what is in the directory stays there."""
        if self._begun:
            self._team.close()
            del self._team

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
