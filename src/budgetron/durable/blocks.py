"""Encode blocks of examples and their margins as bytes for the log, and decode them.

    [version, kind, shape, arrays, records, y, tasks, classes, weights]      in msgpack
    [2, …, weights, shape of the offsets, offsets]                           if the examples have offsets

Offsets are another model's scores of the examples.

`kind` is "dense", "csr" (sparse rows), "records" (raw dicts, which the model's columns encode), "forget" (a task to
forget), or "point" (the settings of an operating point, which turns scores into decisions; version 3). Columns are the
rules by which a model trained by `budgetron run` turns named fields into features. Arrays are little-endian bytes with
their dtype. Tasks, labels and classes in an array of numbers are written in the same way. Other tasks, labels and
classes are written one by one, as in a model file, so they may be any plain hashable value. The byte layouts are a file
format: they must not change without a migration.

Examples are converted here once (`validation.convert`), before they are logged. A model then learns the arrays that are
decoded from the logged bytes, never the caller's own arrays. So a replay of the log after a crash learns exactly what
the first call learned. The shards of a distributed model are the exception: a shard learns the block that the
coordinator has checked, and logs the same values. Decoded arrays are not converted again, only checked against the
model (`Learner.check`). Raw records are encoded by the columns of the model when it learns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.durable.requests import WHO, Request
from budgetron.errors import input_error, shown
from budgetron.learners.input import validation
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows
from budgetron.learners.input.validation import Examples
from budgetron.persist.names import NoJSON, decode_name, encode_name

VERSION = 1
WITH_OFFSETS = 2
"""The version of blocks with offsets. An earlier budgetron, which does not know offsets, rejects this version."""
WITH_POINT = 3
"""The version of blocks of kind "point". An earlier budgetron rejects this version, too."""


@dataclass(frozen=True)
class LoggedBlock:
    """A request as decoded from its bytes."""

    kind: str
    examples: Examples  # if the kind is "records", `rows` has the raw records
    classes: Any


class _EncodedBlock(msgspec.Struct, array_like=True):
    version: int
    kind: str
    shape: tuple[int, int] = (0, 0)
    arrays: list[tuple[str, bytes]] = []
    records: list[dict[str, Any]] = []
    y: Any = None
    tasks: Any = None
    classes: Any = None
    weights: tuple[str, bytes] | None = None


class _EncodedWithOffsets(_EncodedBlock, array_like=True):
    offset_shape: tuple[int, ...] = ()
    offsets: tuple[str, bytes] | None = None


class _Start(msgspec.Struct, array_like=True):
    """The first fields of a block; decoding it skips the others."""

    version: int
    kind: str


_encoder = msgspec.msgpack.Encoder()
_start_decoder = msgspec.msgpack.Decoder(_Start)
_decoder = msgspec.msgpack.Decoder(_EncodedWithOffsets)


def encode_request(request: Request, width: int | None, raw: bool) -> bytes:
    """Convert the examples of a request, and encode them for the log.

    With `raw`, a list of dicts is stored as it is, because the model has columns that encode it later. Otherwise the
    dicts are hashed to `width` features. Before the first block, `width` is None, and they are hashed to
    `DICT_FEATURES` features.
    """
    kind, examples = _convert(request, width, raw)
    rows = examples.rows
    shape = (len(rows), 0) if kind == "records" else (int(rows.shape[0]), int(rows.shape[1]))
    arrays: list[tuple[str, bytes]] = []
    if kind != "records":
        parts = [rows] if kind == "dense" else [rows.data, rows.indices, rows.indptr]
        arrays = list(map(_encode_array, parts))
    # Lists of labels are encoded value by value, not as the arrays that they were converted to. Earlier versions did
    # the same, so the bytes of a retry equal those of the first request even if an earlier version logged it.
    labels = request.y if isinstance(request.y, list | tuple) else examples.labels
    fields: dict[str, Any] = {
        "kind": kind,
        "shape": shape,
        "arrays": arrays,
        "records": [dict(row) for row in rows] if kind == "records" else [],
        "y": _encode_values("y", labels),
        "tasks": _encode_values("tasks", examples.tasks),
        "classes": _encode_values("classes", request.classes),
        "weights": None if examples.weights is None else _encode_array(examples.weights),
    }
    scores = examples.offsets
    if scores is None:
        return _pack(_EncodedBlock(version=VERSION, **fields))
    offset_shape = tuple(map(int, scores.shape))
    offsets = _encode_array(scores)
    return _pack(_EncodedWithOffsets(version=WITH_OFFSETS, **fields, offset_shape=offset_shape, offsets=offsets))


def _convert(request: Request, width: int | None, raw: bool) -> tuple[str, Examples]:
    """The kind of the block, and its examples as arrays; raw records stay as they are."""
    X, y, tasks, weights = request.X, request.y, request.tasks, request.sample_weight
    if request.block is not None:  # checked by the coordinator of a sharded model
        block = request.block
        examples = Examples(block.rows, block.labels, block.tasks, weights, offsets=block.offsets)
    elif are_records(X) and raw:
        n = len(X)
        names = None if tasks is None else validation.task_sequence(WHO, tasks, n)
        scores = validation.offsets(WHO, request.offset, n)
        labels, checked = validation.labels(WHO, y, n), validation.weights(WHO, weights, n)
        return "records", Examples(X, labels, names, checked, offsets=scores)
    else:
        rows = hashed(X, width) if are_records(X) else X
        examples = validation.convert(WHO, rows, y, tasks, weights, request.offset)
    return "csr" if sparse.issparse(examples.rows) else "dense", examples


def encode_forget(task: Any) -> bytes:
    """Encode the request to forget a task."""
    return _pack(_EncodedBlock(version=VERSION, kind="forget", tasks=_encode_values("task", [task])))


def encode_point(settings: Mapping[str, Any] | None, continues: bool) -> bytes:
    """Encode the request to set the model's operating point, or to remove it if `settings` is None.

    `continues` says whether the model already has an operating point. If so, the new operating point takes over the
    counts of the old one. If not, a replay of the record first removes the operating point of the model. This is needed
    for a correction that replays the log from its beginning: its new model starts with the operating point of the
    current model.
    """
    content = {} if settings is None else {"settings": dict(settings), "continues": continues}
    return _pack(_EncodedBlock(version=WITH_POINT, kind="point", records=[content]))


def decode_block(payload: bytes) -> LoggedBlock:
    """Decode a block of the log."""
    block = _decoder.decode(payload)
    if block.version not in (VERSION, WITH_OFFSETS, WITH_POINT):
        raise input_error(WHO, "the log", f"of version {VERSION} to {WITH_POINT}", f"version {block.version}",
                          "Open the directory with a newer budgetron.")  # fmt: skip
    if block.kind == "dense":
        rows: Any = _decode_array(block.arrays[0]).reshape(block.shape)
    elif block.kind == "csr":
        data, indices, indptr = map(_decode_array, block.arrays)
        rows = sparse.csr_matrix((data, indices, indptr), shape=block.shape)
    else:
        rows = block.records
    weights = None if block.weights is None else _decode_array(block.weights)
    labels = None if block.y is None else np.asarray(_decode_values(block.y))
    scores = None if block.offsets is None else _decode_array(block.offsets).reshape(block.offset_shape)
    examples = Examples(rows, labels, _decode_values(block.tasks), weights, rows, scores)
    return LoggedBlock(block.kind, examples, _decode_values(block.classes))


def kind_of(payload: bytes) -> str:
    """The kind of a block of the log, without decoding the rest."""
    return _start_decoder.decode(payload).kind


def without_first_rows(payload: bytes, n: int) -> bytes:
    """Encode the same request without its first n rows."""
    logged = decode_block(payload)
    examples = logged.examples
    parts = (examples.rows, examples.labels, examples.tasks, examples.weights, examples.offsets)
    X, y, tasks, weights, scores = (None if values is None else values[n:] for values in parts)
    request = Request(X, y, tasks, classes=logged.classes, sample_weight=weights, offset=scores)
    return encode_request(request, None, logged.kind == "records")


def with_label(payload: bytes, row: int, label: Any, withdrawn: bool = False) -> bytes | None:
    """Encode the same request with another label for one row, or without that row; None if no row is left."""
    logged = decode_block(payload)
    examples = logged.examples
    assert examples.labels is not None
    remaining = np.arange(len(examples.labels))
    y = examples.labels.tolist()
    if withdrawn:
        remaining = np.delete(remaining, row)
        del y[row]
        if not y:
            return None
    else:
        y[row] = label
    parts = (examples.rows, examples.tasks, examples.weights, examples.offsets)
    X, tasks, weights, scores = (None if values is None else _select_rows(values, remaining) for values in parts)
    request = Request(X, y, tasks, classes=logged.classes, sample_weight=weights, offset=scores)
    return encode_request(request, None, logged.kind == "records")


def _select_rows(values: Any, rows: NDArray[np.intp]) -> Any:
    return [values[row] for row in rows.tolist()] if isinstance(values, list) else values[rows]


def are_records(X: Any) -> bool:
    """Whether X is a list of dicts. A list that mixes dicts with other rows is rejected."""
    if not (isinstance(X, Sequence) and not isinstance(X, str) and len(X) and isinstance(X[0], Mapping)):
        return False
    if not all(isinstance(row, Mapping) for row in X):
        raise input_error(WHO, "X", "a list of dicts, or rows of numbers", "both in one list")
    return True


def hashed(records: Sequence[Mapping[str, Any]], width: int | None) -> Any:
    """Hash dicts of features to sparse rows, with the same hash as `learn_one`."""
    return hashed_rows(WHO, records, width or DICT_FEATURES)


def _encode_values(parameter: str, values: Any) -> Any:
    """Encode labels, tasks or classes: an array of numbers as its bytes, everything else value by value."""
    if values is None:
        return None
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "iufb":
            return _encode_array(values)
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise input_error(WHO, parameter, "a list or array with one value per row", shown(values))
    try:
        return [value if type(value) in _JSON_TYPES else encode_name(_python_scalar(value)) for value in values]
    except NoJSON:
        raise input_error(
            WHO, parameter, "numbers, strings or other plain values (bytes, date, UUID, tuple)", shown(values)
        ) from None


_JSON_TYPES = frozenset({bool, float, int, str})  # written as they are; other types are written with their type's name


def _python_scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _encode_array(values: NDArray[Any]) -> tuple[str, bytes]:
    values = np.ascontiguousarray(values)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return little.dtype.str, little.tobytes()


def _decode_array(encoded_array: Any) -> NDArray[Any]:
    dtype, content = encoded_array
    return np.frombuffer(content, dtype=np.dtype(dtype))


def _decode_values(values: Any) -> Any:
    if values is None:
        return None
    # An array is the pair (dtype, bytes). A list of two labels cannot be mistaken for it, because a label that is bytes
    # is encoded as a list with the name of its type.
    if len(values) == 2 and isinstance(values[1], bytes):
        return _decode_array(values)
    return [decode_name(value) if isinstance(value, list) else value for value in values]


def _pack(block: _EncodedBlock) -> bytes:
    """Encode a block with msgpack, and translate its errors."""
    try:
        return _encoder.encode(block)
    except (TypeError, ValueError, OverflowError) as error:
        raise input_error(
            WHO,
            "the examples",
            "numbers, strings and other plain values, integers below 2**63",
            f"a value that cannot be encoded ({error})",
        ) from None


def margins_to_bytes(margins: NDArray[np.float64]) -> bytes:
    """Encode margins: the number of columns in four bytes (0 for a 1-D array), then the numbers, little-endian."""
    width = 0 if margins.ndim == 1 else int(margins.shape[1])
    return width.to_bytes(4, "little") + margins.astype("<f8").tobytes()


def margins_from_bytes(content: bytes) -> NDArray[np.float64]:
    """Decode what `margins_to_bytes` wrote."""
    width = int.from_bytes(content[:4], "little")
    margins = np.frombuffer(content[4:], dtype="<f8").astype(np.float64)
    return margins.reshape(-1, width) if width else margins
