"""The calls that both clients make: which path, and which body."""

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

from budgetron.client.answers import Answered, Prediction
from budgetron.errors import import_extra, is_whole, refuse, refuse_type, shown

BATCH = 512


@dataclass(frozen=True)
class Call:
    """One request. Any may be sent again, whatever became of it: labels have keys, and the rest says what shall be."""

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    answer: Any = None  # the type to decode into; None for bytes
    headers: dict[str, str] = field(default_factory=dict)

    def sent(self) -> tuple[bytes | None, dict[str, str]]:
        """Content and headers."""
        if self.body is None:
            return self.content, self.headers
        return msgspec.json.encode(self.body), {"Content-Type": "application/json", **self.headers}

    def decoded(self, content: bytes) -> Any:
        return content if self.answer is None else msgspec.json.decode(content, type=self.answer)


@dataclass(frozen=True)
class Settings:
    """What every client is made with."""

    url: str
    key: str | None
    model: str
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise refuse("Client", "url", "one such as http://127.0.0.1:8000", shown(self.url))
        if not is_whole(self.retries) or self.retries < 0:
            raise refuse("Client", "retries", "an integer >= 0", shown(self.retries))

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    def path(self, rest: str) -> str:
        return f"/v1/{rest}" if self.model == "default" else f"/v1/models/{quote(self.model, safe='')}/{rest}"


def http() -> Any:
    """The package that does the talking, imported on use: whoever has no client need not have it."""
    return import_extra("Client", "httpx", "client")


class _Many(msgspec.Struct):
    predictions: list[Prediction]


def predict(settings: Settings, features: Any, task: Any, remember: bool) -> Call:
    body = {"features": plain(features), "remember": remember} | ({} if task is None else {"task": task})
    return Call("POST", settings.path("predict"), body, answer=Prediction)


def predict_many(settings: Settings, examples: list[dict[str, Any]], remember: bool) -> Call:
    return Call("POST", settings.path("predict"), {"examples": examples, "remember": remember}, answer=_Many)


def learn_many(settings: Settings, examples: list[dict[str, Any]], key: str | None, classes: Any) -> Call:
    body: dict[str, Any] = {"examples": examples, "key": key or uuid.uuid4().hex}
    if classes is not None:
        body["classes"] = [_item(label) for label in classes]
    return Call("POST", settings.path("learn"), body, answer=Answered)


def feedback(settings: Settings, name: str, label: Any) -> Call:
    return Call("POST", settings.path("feedback"), {"id": name, "label": _item(label)}, answer=dict[str, Any])


def look(settings: Settings, rest: str) -> Call:
    return Call("GET", settings.path(rest), answer=dict[str, Any])


def task_path(task: Any) -> str:
    """The path of a task; a string that looks like a number goes in quotes."""
    text = str(task)
    if isinstance(task, str) and (text.removeprefix("-").isdigit() or text[:1] == text[-1:] == '"'):
        text = f'"{text}"'
    return f"tasks/{quote(text, safe='')}"


# ---- examples


def plain(features: Any) -> Any:
    """Features as JSON has them."""
    if isinstance(features, Mapping):
        return {str(name): _item(value) for name, value in features.items()}
    if sparse.issparse(features):
        row = features.tocsr()
        if row.shape[0] != 1:
            raise refuse("Client", "features", "one row", f"{row.shape[0]}", "For many there is predict_many.")
        return {"indices": row.indices.tolist(), "values": row.data.tolist()}
    if isinstance(features, np.ndarray):
        return features.tolist()
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise refuse_type("Client", "features", "a row of numbers, a sparse row or a dict", shown(features))
    return [_item(value) for value in features]


def batches(X: Any, y: Any, tasks: Any, size: int) -> Iterator[list[dict[str, Any]]]:
    """Examples of a table or of any iterable, so many at a time."""
    if not is_whole(size) or size < 1:
        raise refuse("Client", "batch", "an integer >= 1", shown(size))
    examples = _examples(X, y, tasks)
    while batch := list(islice(examples, size)):
        yield batch


def _examples(X: Any, y: Any, tasks: Any) -> Iterator[dict[str, Any]]:
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    rows = (X[place] for place in range(X.shape[0])) if sparse.issparse(X) else X
    labels = _forever() if y is None else y
    names = _forever() if tasks is None else tasks
    sides = [values for values in (y, tasks) if values is not None]
    if hasattr(X, "__len__") and any(hasattr(side, "__len__") and len(side) != _length(X) for side in sides):
        raise refuse("Client", "y and tasks", f"as long as X, {_length(X)}", str([len(side) for side in sides]))
    for row, label, task in zip(rows, labels, names, strict=False):
        example = {"features": plain(row)}
        if y is not None:
            example["label"] = _item(label)
        if tasks is not None:
            example["task"] = _item(task)
        yield example


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _forever() -> Iterator[None]:
    while True:
        yield None


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
