"""The HTTP requests of both clients: method, path, headers and body of each call.

`Client` and `AsyncClient` send these requests, in the loop of `retries`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from scipy import sparse

from budgetron.client.responses import Answered, Prediction
from budgetron.errors import import_extra, input_error, input_type_error, is_integer, shown

BATCH = 512  # examples per request: large enough that the cost of a request and its fsync hardly matters


@dataclass(frozen=True)
class Call:
    """One HTTP request. It is safe to retry, because the service recognises repeated labels and changes."""

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    answer: Any = None  # the type of the decoded response; None for bytes
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self) -> tuple[bytes | None, dict[str, str]]:
        """The bytes of the body, and the headers."""
        if self.body is None:
            return self.content, self.headers
        return msgspec.json.encode(self.body), {"Content-Type": "application/json", **self.headers}

    def decode(self, content: bytes) -> Any:
        return content if self.answer is None else msgspec.json.decode(content, type=self.answer)


@dataclass(frozen=True)
class ClientSettings:
    """The arguments of both clients."""

    url: str
    api_key: str | None
    model: str
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise input_error("Client", "url", "an address such as http://127.0.0.1:8000", shown(self.url))
        if not is_integer(self.retries) or self.retries < 0:
            raise input_error("Client", "retries", "an integer >= 0", shown(self.retries))

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    def path(self, rest: str) -> str:
        return f"/v1/{rest}" if self.model == "default" else f"/v1/models/{quote(self.model, safe='')}/{rest}"


def import_httpx() -> Any:
    """Import httpx on first use, because it is an optional dependency."""
    return import_extra("Client", "httpx", "client")


class _PredictionList(msgspec.Struct):
    predictions: list[Prediction]


def predict(
    settings: ClientSettings, features: Any, task: Any, offset: Any, remember: bool, explain: bool, ask: float | None
) -> Call:
    body = {"features": to_json(features)} | ({} if task is None else {"task": task})
    body |= {} if offset is None else {"offset": _offset_json(offset)}
    return Call("POST", settings.path("predict"), body | _options(remember, explain, ask), answer=Prediction)


def predict_many(
    settings: ClientSettings, examples: list[dict[str, Any]], remember: bool, explain: bool, ask: float | None
) -> Call:
    body = {"examples": examples} | _options(remember, explain, ask)
    return Call("POST", settings.path("predict"), body, answer=_PredictionList)


def _options(remember: bool, explain: bool, ask: float | None) -> dict[str, Any]:
    # Send `explain` and `ask` only if they are used, because services of earlier versions do not know these fields and
    # reject them. All versions know `remember`.
    return {"remember": remember} | ({"explain": True} if explain else {}) | ({} if ask is None else {"ask": ask})


def learn_many(settings: ClientSettings, examples: list[dict[str, Any]], key: str | None, classes: Any) -> Call:
    body: dict[str, Any] = {"examples": examples, "key": key or uuid.uuid4().hex}
    if classes is not None:
        body["classes"] = [_item(label) for label in classes]
    return Call("POST", settings.path("learn"), body, answer=Answered)


def operating_point(settings: ClientSettings, values: dict[str, Any]) -> Call:
    body = {name: value for name, value in values.items() if value is not None}
    return Call("PUT", settings.path("operating-point"), body, answer=dict[str, Any])


def no_operating_point(settings: ClientSettings) -> Call:
    return Call("DELETE", settings.path("operating-point"), answer=dict[str, Any])


def feedback(settings: ClientSettings, prediction_id: str, label: Any, correct: bool = False) -> Call:
    body = {"id": prediction_id, "label": _item(label)} | ({"correct": True} if correct else {})
    return Call("POST", settings.path("feedback"), body, answer=dict[str, Any])


def correction(
    settings: ClientSettings, position: int, row: int | None, label: Any, withdraw: bool, reason: str
) -> Call:
    body: dict[str, Any] = {"position": int(position)} | ({} if row is None else {"row": int(row)})
    body |= {"withdraw": True} if withdraw else {"label": _item(label)}
    body |= {"reason": reason} if reason else {}
    return Call("POST", settings.path("corrections"), body, answer=dict[str, Any])


def candidate(settings: ClientSettings, version: str, share: float) -> Call:
    body = {"version": version, "share": float(share)}
    return Call("PUT", settings.path("candidate"), body, answer=dict[str, Any])


def version_path(name: str) -> str:
    return f"versions/{quote(name, safe='')}"


def get(settings: ClientSettings, rest: str) -> Call:
    return Call("GET", settings.path(rest), answer=dict[str, Any])


def task_path(task: Any) -> str:
    """The URL path of a task. A string of digits is put in quotes, so that the service does not read it as a number.

    A string that has quotes already is put in quotes too, because the service removes one pair.
    """
    text = str(task)
    if isinstance(task, str) and (text.removeprefix("-").isdigit() or text[:1] == text[-1:] == '"'):
        text = f'"{text}"'
    return f"tasks/{quote(text, safe='')}"


# ---- examples


def to_json(features: Any) -> Any:
    """Convert features to JSON values: a list, a dict, or the indices and values of a sparse row."""
    if isinstance(features, Mapping):
        return {str(name): _item(value) for name, value in features.items()}
    if sparse.issparse(features):
        row = features.tocsr()
        if row.shape[0] != 1:
            remedy = "Use predict_many or learn_many for several rows."
            raise input_error("Client", "features", "one row", f"{row.shape[0]} rows", remedy)
        return {"indices": row.indices.tolist(), "values": row.data.tolist()}
    if isinstance(features, np.ndarray):
        return features.tolist()
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise input_type_error("Client", "features", "a row of numbers, a sparse row or a dict", shown(features))
    return [_item(value) for value in features]


def _offset_json(offset: Any) -> Any:
    """The offset of an example as JSON: another model's score, or one score per class."""
    return offset.tolist() if hasattr(offset, "tolist") else offset


def batches(X: Any, y: Any, tasks: Any, size: int, offset: Any = None) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of `size` examples from a table or any iterable. A batch is read only when it is needed."""
    if not is_integer(size) or size < 1:
        raise input_error("Client", "batch", "an integer >= 1", shown(size))
    examples = _examples(X, y, tasks, offset)
    while batch := list(islice(examples, size)):
        yield batch


def _examples(X: Any, y: Any, tasks: Any, offset: Any) -> Iterator[dict[str, Any]]:
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    rows = (X[i] for i in range(X.shape[0])) if sparse.issparse(X) else X
    labels = _endless_none() if y is None else y
    row_tasks = _endless_none() if tasks is None else tasks
    offsets = _endless_none() if offset is None else offset
    # Check the lengths of lists and arrays. Generators have no length; `zip` below ends with the shortest of them.
    sized = [values for values in (y, tasks, offset) if hasattr(values, "__len__")]
    if hasattr(X, "__len__") and any(len(values) != _length(X) for values in sized):
        accepted, got = f"as long as X, {_length(X)}", f"lengths {[len(values) for values in sized]}"
        raise input_error("Client", "y, tasks and offset", accepted, got)
    for row, label, task, row_offset in zip(rows, labels, row_tasks, offsets, strict=False):
        example = {"features": to_json(row)}
        if y is not None:
            example["label"] = _item(label)
        if tasks is not None:
            example["task"] = _item(task)
        if offset is not None:
            example["offset"] = _offset_json(row_offset)
        yield example


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _endless_none() -> Iterator[None]:
    while True:
        yield None


def _item(value: Any) -> Any:
    """A NumPy scalar as a Python value, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value
