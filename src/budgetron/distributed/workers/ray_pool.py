"""`RayPool`: workers as Ray actors. Ray schedules them on nodes, and restarts one whose process or node is lost.

A restarted actor owns no shards until the coordinator assigns them to it, under a new epoch. Ray must never repeat a
call by itself (`max_task_retries=0`): the coordinator repeats it with the same idempotency key, so that the shard's
log recognises rows that were learned already.

Starting a process and importing everything takes Ray about three seconds. So the pool keeps a spare: an actor that has
imported everything and owns nothing. It takes the place of a lost worker at once. The actor that was lost becomes the
spare when Ray has restarted it, so there are never more actors than workers and one spare.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from budgetron.distributed.workers.worker import NotTheOwner, Worker
from budgetron.distributed.workers.worker_pool import WorkerLost, WorkerPool
from budgetron.errors import WorkerError, error_message, import_extra, input_error

WHO = "ShardedModel"
START_TIMEOUT = 120.0  # seconds to start a process; an autoscaling cluster may have to add a node first
SPARE_TIMEOUT = 3.0  # seconds for the spare to answer; after that the lost worker is restarted as if there were none
RESTART_TIMEOUT = 10.0  # seconds to wait for a restart while other workers could take the shards


class RayPool(WorkerPool):
    """A pool of workers on a Ray cluster: the one that `ray.init` connected to, or a new one on this machine.

    `patience` is the timeout of a call in seconds, after which its worker counts as lost.
    """

    def __init__(
        self, directory: str | None, snapshot_every: int, patience: float = 60.0, options: dict[str, Any] | None = None
    ) -> None:
        if directory is None:
            raise input_error(
                WHO, "directory", 'a folder that all nodes share if backend="ray"', "None",
                "It holds the logs from which a lost worker is replaced.",
            )  # fmt: skip
        self._ray = _imported()
        self._arguments = (directory, snapshot_every)
        self._patience = patience
        self._options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 0, **(options or {})}
        self._keeps_spare = bool(self._options.pop("spare", True))
        self._spare: Any = None
        self._started = not self._ray.is_initialized()
        if self._started:
            self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._actors: dict[str, Any] = {}

    def start_worker(self, name: str) -> None:
        self._start(name)
        if not self._answers_within(name, START_TIMEOUT):
            self._kill(name)
            raise WorkerError(
                error_message(WHO, "workers", "as many as the cluster has CPUs for", f"no CPU for {name}",
                              "Add a node, or lower num_cpus in ray_options.")
            )  # fmt: skip
        if self._keeps_spare and self._spare is None:
            self._spare = self._new_spare()

    def stop_worker(self, name: str) -> None:
        with suppress(WorkerLost):  # a lost worker has nothing left to close
            self.call(name, "close")
        self._kill(name)

    def send(self, name: str, method: str, *arguments: Any) -> Any:
        return getattr(self._actors[name], method).remote(*arguments)

    def result(self, future: Any) -> Any:
        return self._get(future, self._patience)

    def restart_worker(self, name: str, is_last: bool) -> bool:
        if self._promote_spare(name):
            return True
        if self._answers_within(name, self._patience if is_last else min(self._patience, RESTART_TIMEOUT)):
            return True
        # The actor hangs, or Ray no longer restarts it. If its process still runs, the epoch keeps it from writing.
        self._kill(name)
        self._start(name)
        if self._answers_within(name, START_TIMEOUT if is_last else RESTART_TIMEOUT):
            return True
        # Keep the dead actor under its name, so that calls to it raise WorkerLost instead of KeyError.
        self._ray.kill(self._actors[name], no_restart=True)
        return False

    def close(self) -> None:
        for name in list(self._actors):
            self.stop_worker(name)
        if self._spare is not None:
            self._ray.kill(self._spare, no_restart=True)
            self._spare = None
        if self._started:
            self._ray.shutdown()
            self._started = False

    def _new_spare(self) -> Any:
        """Start a spare, without waiting for it. It reserves no CPU, since it idles."""
        spare = self._ray.remote(Worker).options(**self._options | {"num_cpus": 0}).remote("spare", *self._arguments)
        spare.warm_up.remote()
        return spare

    def _promote_spare(self, name: str) -> bool:
        """Put the spare in the place of a lost worker, which becomes the spare; False if there is none that answers."""
        if self._spare is None:
            return False
        try:
            self._get(self._spare.become.remote(name), SPARE_TIMEOUT)
        except WorkerLost as lost:
            if isinstance(lost.__cause__, self._ray.exceptions.ActorDiedError):
                self._spare = self._new_spare()  # Ray does not restart the other one any more
            return False
        self._actors[name], self._spare = self._spare, self._actors[name]
        return True

    def _start(self, name: str) -> None:
        self._actors[name] = self._ray.remote(Worker).options(**self._options).remote(name, *self._arguments)

    def _kill(self, name: str) -> None:
        self._ray.kill(self._actors.pop(name), no_restart=True)

    def _answers_within(self, name: str, seconds: float) -> bool:
        """Whether the actor answers within that time. Retries until then, because it may be restarting."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._get(self.send(name, "ping"), left)
                return True
            except WorkerLost as lost:
                if isinstance(lost.__cause__, self._ray.exceptions.ActorDiedError):
                    return False  # dead for good: Ray will not restart it
                time.sleep(0.05)
        return False

    def _get(self, future: Any, seconds: float) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(future, timeout=seconds)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, NotTheOwner):
                raise WorkerLost(str(cause)) from cause
            raise cause from None
        except (errors.RayActorError, errors.GetTimeoutError, errors.WorkerCrashedError, errors.NodeDiedError) as error:
            raise WorkerLost(str(error)) from error
        except errors.ObjectLostError as error:  # the result, or the rows of the call, were on a lost node
            raise WorkerLost(str(error)) from error


def _imported() -> Any:
    return import_extra(WHO, "ray", "ray")
