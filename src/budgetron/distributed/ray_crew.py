"""Workers as Ray actors: Ray finds a place for each and starts it again when its process or its node is lost.

Ray restarts the process, and nothing more: an actor that comes back owns no shard until the coordinator has given it
one, under a new epoch. A call is never repeated by Ray itself; the coordinator repeats it, and the shard's log knows
what it has learned already.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from budgetron.distributed.crew import Crew, Lost
from budgetron.distributed.worker import NotTheOwner, Worker
from budgetron.errors import WorkerError, import_extra, refusal, refuse

WHO = "ShardedModel"
START = 120.0  # seconds that a process may take to start: a cluster may have to find room for it first
RESTART = 10.0  # where others can have its shards meanwhile


class RayCrew(Crew):
    """Workers on a Ray cluster: the one that `ray.init` was called for, or one of this machine's own.

    `patience` is how many seconds an answer may take before its worker counts as lost.
    """

    def __init__(
        self, directory: str | None, snapshot_every: int, patience: float = 60.0, options: dict[str, Any] | None = None
    ) -> None:
        if directory is None:
            raise refuse(
                WHO, "directory", 'a folder that all nodes share where backend="ray"', "None",
                "The logs are there: without them a lost worker could not be replaced.",
            )  # fmt: skip
        self._ray = _imported()
        self._arguments = (directory, snapshot_every)
        self._patience = patience
        self._options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 0, **(options or {})}
        self._started = not self._ray.is_initialized()
        if self._started:
            self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._actors: dict[str, Any] = {}

    def hire(self, name: str) -> None:
        self._start(name)
        if not self._is_there(name, START):
            self._kill(name)
            raise WorkerError(
                refusal(WHO, "workers", "as many as the cluster has room for", f"no place for {name}",
                        "Add a node, or lower num_cpus in ray_options.")
            )  # fmt: skip

    def dismiss(self, name: str) -> None:
        with suppress(Lost):  # then there is nothing left to close
            self.ask(name, "close")
        self._kill(name)

    def send(self, name: str, method: str, *arguments: Any) -> Any:
        return getattr(self._actors[name], method).remote(*arguments)

    def answer(self, ticket: Any) -> Any:
        return self._get(ticket, self._patience)

    def revive(self, name: str, alone: bool) -> bool:
        if self._is_there(name, self._patience if alone else min(self._patience, RESTART)):
            return True
        self._kill(name)  # it hangs, or Ray has given it up: whatever is left of it is fenced by the epoch
        self._start(name)
        if self._is_there(name, START if alone else RESTART):
            return True
        self._ray.kill(self._actors[name], no_restart=True)  # its name stays: who sends to it is told that it is lost
        return False

    def close(self) -> None:
        for name in list(self._actors):
            self.dismiss(name)
        if self._started:
            self._ray.shutdown()
            self._started = False

    def _start(self, name: str) -> None:
        self._actors[name] = self._ray.remote(Worker).options(**self._options).remote(name, *self._arguments)

    def _kill(self, name: str) -> None:
        self._ray.kill(self._actors.pop(name), no_restart=True)

    def _is_there(self, name: str, seconds: float) -> bool:
        """Whether the actor answers within that time; a lost one may be starting again."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._get(self.send(name, "ping"), left)
                return True
            except Lost as lost:
                if isinstance(lost.__cause__, self._ray.exceptions.ActorDiedError):
                    return False
                time.sleep(0.05)
        return False

    def _get(self, ticket: Any, seconds: float) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(ticket, timeout=seconds)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, NotTheOwner):
                raise Lost(str(cause)) from cause
            raise cause from None
        except (errors.RayActorError, errors.GetTimeoutError, errors.WorkerCrashedError, errors.NodeDiedError) as error:
            raise Lost(str(error)) from error
        except errors.ObjectLostError as error:  # the answer died with its node, or the rows on their way
            raise Lost(str(error)) from error


def _imported() -> Any:
    return import_extra(WHO, "ray", "ray")
