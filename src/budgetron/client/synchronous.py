"""`Client`: the blocking client of `budgetron serve`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.client import calls
from budgetron.client.calls import BATCH, Call, ClientSettings
from budgetron.client.responses import Answered, Prediction, error_of
from budgetron.client.retries import Retries
from budgetron.persist import replace_file


class Client:
    """A client of a running `budgetron serve`.

    Parameters
    ----------
    url : str
        The address of the service, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        The API key, if the service requires one.
    model : str, default="default"
        The name of the model, if the service has several.
    timeout : float, default=30.0
        Seconds to wait for a response.
    retries : int, default=6
        How often a call is retried if there is no response, or if the service is busy, restarting or short of disk
        space. The waits between retries double, unless the service says how long to wait. No wait is longer than 10
        seconds. No retry learns a label twice.
    """

    def __init__(
        self, url: str, key: str | None = None, model: str = "default", *, timeout: float = 30.0, retries: int = 6
    ) -> None:
        self._settings = ClientSettings(url, key, model, timeout, retries)
        httpx = calls.import_httpx()
        self._transport_error = httpx.TransportError
        self._http = httpx.Client(base_url=url, headers=self._settings.headers, timeout=timeout, trust_env=False)

    # ---- predicting and learning

    def predict(
        self,
        features: Any,
        task: Any = None,
        *,
        offset: Any = None,
        remember: bool = False,
        explain: bool = False,
        ask: float | None = None,
    ) -> Prediction:
        """Predict one example: a row of numbers, a sparse row, or a dict.

        With `remember`, the prediction has an `id`, by which `feedback` names it. With `explain`, the prediction has
        `reasons`. The argument `ask` is the share of predictions for which you can get a label. If you pass `ask`, the
        field `ask` of the prediction says whether the label of this example is worth asking for. If so, the prediction
        has an `id`, and `queue` lists it until it has a label.
        """
        call = calls.predict(self._settings, features, task, offset, remember, explain, ask)
        prediction: Prediction = self._call(call)
        return prediction

    def predict_many(
        self,
        X: Any,
        tasks: Any = None,
        *,
        offset: Any = None,
        remember: bool = False,
        explain: bool = False,
        ask: float | None = None,
        batch: int = BATCH,
    ) -> list[Prediction]:
        """Predict many examples, `batch` per request."""
        predictions: list[Prediction] = []
        for examples in calls.batches(X, None, tasks, batch, offset):
            predictions += self._call(calls.predict_many(self._settings, examples, remember, explain, ask)).predictions
        return predictions

    def learn(
        self,
        features: Any,
        label: Any,
        task: Any = None,
        *,
        offset: Any = None,
        key: str | None = None,
        classes: Any = None,
    ) -> Answered:
        """Learn one example. It is on disk when this returns. `key` is an idempotency key, by default a random one."""
        examples = next(calls.batches(
            [features], [label], None if task is None else [task], 1, None if offset is None else [offset]
        ))
        answered: Answered = self._call(calls.learn_many(self._settings, examples, key, classes))
        return answered

    def learn_many(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        *,
        offset: Any = None,
        classes: Any = None,
        batch: int = BATCH,
    ) -> NDArray[np.float64]:
        """Learn many examples in order, `batch` per request. Returns the margins before learning.

        X, y and tasks may be generators of more examples than fit in memory. Only one batch and the margins are in
        memory: a batch is sent when it is full, and released when it is acknowledged. If a batch fails, the call raises
        an error. The batches before it have been learned. The failed batch may have been learned too, if only its
        response was lost.
        """
        margins: list[Any] = []
        for examples in calls.batches(X, y, tasks, batch, offset):
            margins += self._call(calls.learn_many(self._settings, examples, None, classes)).margins
        return np.array(margins, dtype=np.float64)

    def feedback(self, id: str, label: Any, *, correct: bool = False) -> dict[str, Any]:
        """Send the label of an earlier prediction, by its id. With `correct`, the label replaces an earlier one."""
        answer: dict[str, Any] = self._call(calls.feedback(self._settings, id, label, correct))
        return answer

    def correct(self, position: int, label: Any, row: int | None = None, *, reason: str = "") -> dict[str, Any]:
        """Correct the label of example `row` in record `position`, which must still be in the log.

        `learn` returns the position. `row` counts from 0, and may be left out if the record has one example.
        """
        call = calls.correction(self._settings, position, row, label, False, reason)
        answer: dict[str, Any] = self._call(call)
        return answer

    def withdraw(self, position: int, row: int | None = None, *, reason: str = "") -> dict[str, Any]:
        """Remove an example from the model. Its record must still be in the log."""
        call = calls.correction(self._settings, position, row, None, True, reason)
        answer: dict[str, Any] = self._call(call)
        return answer

    def corrections(self) -> list[dict[str, Any]]:
        """The audit trail of corrections, newest first."""
        corrections: list[dict[str, Any]] = (self._get("corrections"))["corrections"]
        return corrections

    def queue(self) -> dict[str, Any]:
        """The predictions whose labels are worth asking for, the least confident first. Send labels with `feedback`."""
        return self._get("queue")

    # ---- statistics

    def model(self) -> dict[str, Any]:
        """The model's settings and statistics."""
        return self._get("model")

    def task(self, task: Any) -> dict[str, Any]:
        """The statistics of one task: its metrics, and how many of its examples are stored."""
        return self._get(calls.task_path(task))

    def live(self) -> dict[str, Any]:
        """The statistics of the live page."""
        return self._get("live")

    def events(self) -> Iterator[dict[str, Any]]:
        """The statistics of the live page, once per second, without end."""
        with self._http.stream("GET", self._settings.path("events")) as answer:
            if answer.status_code != 200:
                raise error_of(answer.status_code, answer.read())
            event = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    event = line[7:]
                elif line.startswith("data: ") and event == "live":  # drift alarms are events too, and are left out
                    yield msgspec.json.decode(line[6:])

    # ---- administration

    def set_operating_point(
        self,
        *,
        threshold: float | None = None,
        costs: dict[str, float] | None = None,
        max_error: float | None = None,
        confidence: float | None = None,
    ) -> dict[str, Any]:
        """Set how the model turns scores into decisions. Returns the operating point, with its thresholds.

        See `OperatingPoint` for the arguments.
        """
        values = {"threshold": threshold, "costs": costs, "max_error": max_error, "confidence": confidence}
        answer: dict[str, Any] = self._call(calls.operating_point(self._settings, values))
        point: dict[str, Any] = answer["operating_point"]
        return point

    def remove_operating_point(self) -> None:
        """Remove the operating point. The model then predicts without deciding."""
        self._call(calls.no_operating_point(self._settings))

    def forget(self, task: Any) -> int:
        """Remove a task's stored examples, weights and remembered predictions. Returns the number of the log record."""
        call = Call("DELETE", self._settings.path(calls.task_path(task)), answer=dict[str, int])
        return int(self._call(call)["position"])

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Download the current model file."""
        replace_file(path, self._call(Call("GET", self._settings.path("snapshot"))))

    def restore(self, path: str | os.PathLike[str]) -> int:
        """Replace the model by a model file. Returns the number of the log record."""
        call = Call("PUT", self._settings.path("snapshot"), content=Path(path).read_bytes(), answer=dict[str, int])
        return int(self._call(call)["position"])

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Download a backup of model, log and keys. `budgetron restore PATH DIRECTORY` restores it."""
        replace_file(path, self._call(Call("GET", self._settings.path("backup"))))

    def versions(self) -> dict[str, Any]:
        """The versions of the model, the candidate and its metrics, and past replacements."""
        return self._get("versions")

    def save_version(self, name: str, path: str | os.PathLike[str] | None = None) -> None:
        """Save the current model, or a model file, as a version."""
        content = None if path is None else Path(path).read_bytes()
        self._change("PUT", calls.version_path(name), content=content)

    def delete_version(self, name: str) -> None:
        self._change("DELETE", calls.version_path(name))

    def activate(self, name: str) -> int:
        """Replace the model by a version. Returns the number of the log record."""
        return self._change("POST", calls.version_path(name))

    def rollback(self) -> int:
        """Return to the model before the last activation, promotion or rollback."""
        # Name the version to return to: a retry of POST rollback would undo the rollback.
        name = (self.versions())["rollback"]
        return self._change("POST", "rollback" if name is None else calls.version_path(name))

    def begin_candidate(self, version: str, share: float = 0.0) -> dict[str, Any]:
        """Run a version beside the model in use, as the candidate.

        The candidate learns the same labels and predicts for a `share` of the tasks. With a share of 0 it is only
        compared with the model in use.
        """
        call = calls.candidate(self._settings, version, share)
        answer: dict[str, Any] = self._call(call)
        return answer

    def end_candidate(self) -> None:
        self._change("DELETE", "candidate")

    def promote(self) -> int:
        """Make the candidate, with everything it has learned, the model in use."""
        return self._change("POST", "promote")

    def copy(self) -> dict[str, Any]:
        """The state of the model's copy: its URL, the last copied record, and the role of this service.

        The role is owner, standby, former owner or none.
        """
        return self._get("copy")

    def take_over(self) -> int:
        """Make this standby the owner of the copy. Returns the number of the log record."""
        return self._change("POST", "takeover")

    # ---- HTTP

    def _change(self, method: str, rest: str, content: bytes | None = None) -> int:
        call = Call(method, self._settings.path(rest), content=content, answer=dict[str, int])
        return int((self._call(call))["position"])

    def _get(self, rest: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._call(calls.get(self._settings, rest))
        return answer

    def _call(self, call: Call) -> Any:
        attempts = Retries(self._settings, call)
        for wait in attempts:
            time.sleep(wait)
            try:
                attempts.on_response(self._http.request(**attempts.request))
            except self._transport_error as error:
                attempts.on_no_response(error)
        return attempts.answer

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
