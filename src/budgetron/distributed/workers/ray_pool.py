"""`RayPool`: workers as Ray actors. Ray schedules them on nodes, and restarts one whose process or node is lost.

A restarted actor owns no shards until the coordinator assigns them to it, under a new epoch. Ray must never repeat a
call by itself (`max_task_retries=0`): the coordinator repeats it with the same idempotency key, so that the shard's
log recognises rows that were learned already.

Ray needs about three seconds to start a process and import everything. The pool therefore keeps a spare: an actor that
has imported everything and owns nothing. It replaces a lost worker at once. The lost actor becomes the spare when Ray
has restarted it, so there is never more than one actor in addition to the workers. Ray also takes seconds to report the
end of a process, so each worker holds a connection whose end shows it at once (`liveness`).
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from budgetron.distributed.workers.liveness import Link, Links, hold_connection
from budgetron.distributed.workers.worker import NotTheOwner, Worker
from budgetron.distributed.workers.worker_pool import WorkerLost, WorkerPool
from budgetron.errors import WorkerError, import_extra, input_error

START_TIMEOUT = 120.0  # seconds to start a process; an autoscaling cluster may have to add a node first
TURN_TIMEOUT = 3.0  # seconds to wait for the spare, then for the restarted worker, then for the spare again
RESTART_TIMEOUT = 10.0  # seconds to wait for a restart while other workers could take the shards
POLL_INTERVAL = 0.05  # seconds between two checks of a worker's connection while its answer is awaited


class RayWorker(Worker):
    """A worker in its own process, which has imported everything and holds a connection to the coordinator."""

    def __init__(
        self, name: str, directory: str, snapshot_every: int, address: tuple[str, int] | None, token: bytes
    ) -> None:
        super().__init__(name, directory, snapshot_every)
        if address is not None:
            hold_connection(address, token)
        self.warm_up()  # in the constructor, so that it also happens after Ray has restarted the process


@dataclass(frozen=True)
class _Actor:
    handle: Any
    link: Link

    def call(self, method: str, *arguments: Any) -> _Call:
        survived = self.link.n_survived  # read before sending, because the call may reach a process that is just ending
        return _Call(getattr(self.handle, method).remote(*arguments), self.link, survived)


@dataclass(frozen=True)
class _Call:
    """The future of a call, and `Link.n_survived` when it was sent."""

    future: Any
    link: Link
    n_survived: int

    @property
    def is_lost(self) -> bool:
        """Whether the connection of the process that got the call has ended."""
        return self.link.n_ended > self.n_survived


class RayPool(WorkerPool):
    """A pool of workers on the Ray cluster that `ray.init` connected to, or on a new one on this machine.

    `patience` is the timeout of a call in seconds, after which its worker counts as lost.
    """

    def __init__(
        self, directory: str | None, snapshot_every: int, patience: float, options: dict[str, Any] | None, who: str
    ) -> None:
        self._who = who  # the class of the model, for messages
        if directory is None:
            raise input_error(
                who, "directory", 'a folder that all nodes share if backend="ray"', "None",
                "It holds the logs that replace a lost worker.",
            )  # fmt: skip
        self._ray = import_extra(who, "ray", "ray")
        self._arguments = (directory, snapshot_every)
        self._patience = patience
        self._options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 0, **(options or {})}
        self._keeps_spare = bool(self._options.pop("spare", True))
        self._spare: _Actor | None = None
        self._started_ray = not self._ray.is_initialized()
        if self._started_ray:
            with _keeping_signal_handlers():
                self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._actors: dict[str, _Actor] = {}
        self._links = Links(self._ray.util.get_node_ip_address())

    def start_worker(self, name: str) -> None:
        self._start(name)
        if not self._answers_within(name, START_TIMEOUT):
            self._kill(name)
            raise WorkerError(
                f"{self._who}: the cluster has no free CPU for {name}. Add a node, or lower num_cpus in ray_options."
            )
        if self._keeps_spare and self._spare is None:
            self._spare = self._new_spare()

    def stop_worker(self, name: str) -> None:
        with suppress(WorkerLost):  # a lost worker has nothing left to close
            self.call(name, "close")
        self._kill(name)

    def send(self, name: str, method: str, *arguments: Any) -> Any:
        return self._actors[name].call(method, *arguments)

    def result(self, future: Any) -> Any:
        return self._get(future, self._patience)

    def restart_worker(self, name: str, is_last: bool) -> bool:
        if self._replace_within(name, self._patience if is_last else min(self._patience, RESTART_TIMEOUT)):
            return True
        # The actor hangs, or Ray no longer restarts it. If its process still runs, its old epoch prevents writes.
        self._kill(name)
        self._start(name)
        if self._replace_within(name, START_TIMEOUT if is_last else RESTART_TIMEOUT):
            return True
        # Keep the dead actor under its name, so that calls to it raise WorkerLost instead of KeyError.
        self._ray.kill(self._actors[name].handle, no_restart=True)
        return False

    def close(self) -> None:
        for name in list(self._actors):
            self.stop_worker(name)
        if self._spare is not None:
            self._ray.kill(self._spare.handle, no_restart=True)
            self._spare = None
        self._links.close()
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False

    def _new_actor(self, name: str, options: dict[str, Any]) -> _Actor:
        link = self._links.new()
        actor_class = self._ray.remote(RayWorker).options(**options)
        return _Actor(actor_class.remote(name, *self._arguments, self._links.address, link.token), link)

    def _new_spare(self) -> _Actor:
        """Start a spare, without waiting for it. It reserves no CPU, since it idles."""
        return self._new_actor("spare", self._options | {"num_cpus": 0})

    def _replace_within(self, name: str, seconds: float) -> bool:
        """Whether the spare or the restarted actor takes the place of a lost worker within that time.

        Both are asked in turn: on a busy machine the spare may still be starting when the worker is lost, and Ray may
        need most of a minute to restart a process. False at once if Ray no longer restarts the actor.
        """
        end = time.monotonic() + seconds
        for ask in itertools.cycle((self._promote_spare, self._answers_within)):
            left = end - time.monotonic()
            if left <= 0:
                break
            answered = ask(name, min(left, TURN_TIMEOUT))
            if answered is not False:
                return bool(answered)
        return False

    def _promote_spare(self, name: str, seconds: float) -> bool:
        """Replace a lost worker by the spare. False if there is no spare, or if it does not answer in time."""
        if self._spare is None:
            return False
        try:
            self._get(self._spare.call("become", name), seconds)
        except WorkerLost as lost:
            if isinstance(lost.__cause__, self._ray.exceptions.ActorDiedError):
                self._links.forget(self._spare.link)
                self._spare = self._new_spare()  # Ray no longer restarts the dead one
            return False
        self._actors[name], self._spare = self._spare, self._actors[name]
        return True

    def _start(self, name: str) -> None:
        self._actors[name] = self._new_actor(name, self._options)

    def _kill(self, name: str) -> None:
        actor = self._actors.pop(name)
        self._links.forget(actor.link)
        self._ray.kill(actor.handle, no_restart=True)

    def _answers_within(self, name: str, seconds: float) -> bool | None:
        """Whether the actor answers within that time. Retries until then, because it may be restarting.

        None if it is dead and Ray will not restart it.
        """
        end, actor = time.monotonic() + seconds, self._actors[name]
        while (left := end - time.monotonic()) > 0:
            ended = actor.link.n_ended  # an answer shows that the actor lives, although these connections have ended
            try:
                # Not `ping`: a former spare that Ray has restarted must be told again which worker it is.
                self._get(replace(actor.call("become", name), n_survived=ended), left)
                actor.link.n_survived = max(ended, actor.link.n_survived)
                return True
            except WorkerLost as lost:
                if isinstance(lost.__cause__, self._ray.exceptions.ActorDiedError):
                    return None
                time.sleep(0.05)
        return False

    def _get(self, call: _Call, seconds: float) -> Any:
        """Wait for the result of a call. Raises `WorkerLost` if the worker is lost or the time is over."""
        errors, end = self._ray.exceptions, time.monotonic() + seconds
        try:
            # `wait` does not fetch: a fetch that is interrupted every 50 ms would never finish for a large result.
            while not self._ray.wait([call.future], timeout=POLL_INTERVAL, fetch_local=False)[0]:
                if call.is_lost:
                    raise WorkerLost("The worker's connection to the coordinator has ended.")
                if time.monotonic() > end:
                    break
            return self._ray.get(call.future, timeout=max(0.0, end - time.monotonic()))
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, NotTheOwner):
                raise WorkerLost(str(cause)) from cause
            raise cause from None
        except (errors.RayActorError, errors.GetTimeoutError, errors.WorkerCrashedError, errors.NodeDiedError) as error:
            raise WorkerLost(str(error)) from error
        except errors.ObjectLostError as error:  # the result, or the rows of the call, were on a lost node
            raise WorkerLost(str(error)) from error


@contextmanager
def _keeping_signal_handlers() -> Iterator[None]:
    """Set the program's own handlers of SIGINT and SIGTERM again after Ray has started.

    Ray replaces the handler of SIGTERM. It also installs a handler in C++, which aborts the process three seconds after
    the signal, even if a handler in Python is about to save a model. Only the main thread can set handlers.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler not in (None, signal.SIG_DFL, signal.default_int_handler):
                    signal.signal(number, handler)
