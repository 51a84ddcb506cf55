"""Encode blocks of examples as bytes for the log, and decode them.

    [version, kind, shape, arrays, records, y, tasks, classes, weights]      in msgpack

`kind` is "dense", "csr", "records" (raw, for a model with columns) or "forget". Arrays are little-endian bytes with
their dtype. Tasks and labels are written as in a model file, so they may be any plain hashable value.

The model always learns the block as decoded from these bytes, never the caller's own arrays. So a replay of the log
after a crash learns exactly what the first call learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.errors import refuse, shown
from budgetron.learners import validation
from budgetron.learners.hashing import DICT_FEATURES, hashed_rows
from budgetron.persist.names import NoJSON, decoded, encoded

VERSION = 1
WHO = "Host"
DIGEST_BYTES = 8  # per row: enough to notice rows that changed by mistake; not a defence against forgery


@dataclass(frozen=True)
class StreamRows:
    """The positions of a request's rows in a stream that may be sent again. `Request.key` names the stream.

    Parameters
    ----------
    places : array of int
        One position per row, such as a line number or an offset. Positions rise along the stream, within a request and
        from one request to the next. A row that is sent again has the same position.
    digests : bytes, optional
        Eight bytes per row, from `row_digest` or `row_digests`. With them, a different row at the same position is
        rejected instead of skipped.
    """

    places: NDArray[np.int64]
    digests: bytes = b""

    def __post_init__(self) -> None:
        places = np.asarray(self.places, dtype=np.int64)
        if places.ndim != 1 or not len(places) or places[0] < 0 or (np.diff(places) <= 0).any():
            raise refuse(WHO, "places", "rising integers >= 0, one per row", shown(self.places))
        if self.digests and len(self.digests) != DIGEST_BYTES * len(places):
            raise refuse(WHO, "digests", f"{DIGEST_BYTES} bytes per row", f"{len(self.digests)} for {len(places)} rows")
        object.__setattr__(self, "places", places)

    def first(self, n: int) -> StreamRows:
        return StreamRows(self.places[:n], self.digests[: DIGEST_BYTES * n])

    def after(self, n: int) -> StreamRows:
        return StreamRows(self.places[n:], self.digests[DIGEST_BYTES * n :])


def row_digest(content: bytes) -> bytes:
    """Hash the content of one row, for `StreamRows.digests`."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def row_digests(X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> bytes:
    """Hash every row of an array or CSR matrix together with its label, task and weight, for `StreamRows.digests`."""
    sides = [values.tolist() if hasattr(values, "tolist") else values for values in (y, tasks, sample_weight)]
    if sparse.issparse(X):
        X = X.tocsr()
        cuts = [slice(*ends) for ends in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
        rows = (X.indices[cut].astype("<i8").tobytes() + X.data[cut].tobytes() for cut in cuts)
    else:
        rows = (row.tobytes() for row in np.ascontiguousarray(X))
    labels = (repr([None if side is None else side[place] for side in sides]).encode() for place in range(X.shape[0]))
    return b"".join(row_digest(row + label) for row, label in zip(rows, labels, strict=True))


@dataclass(frozen=True)
class Request:
    """The arguments of one call of `learn`: labelled examples that are learned together or rejected together.

    `key` is the idempotency key. Without `rows` it names this request alone. With `rows` it names a stream, and the
    examples are some rows of that stream.
    """

    X: Any
    y: Any
    tasks: Any = None
    key: str | None = None
    classes: Any = None
    sample_weight: Any = None
    rows: StreamRows | None = None


@dataclass(frozen=True)
class Block:
    """A request as decoded from its bytes, ready to be learned."""

    kind: str
    X: Any
    y: Any
    tasks: Any
    classes: Any
    sample_weight: Any


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_EncodedBlock)


def encode_request(request: Request, width: int | None, raw: bool) -> bytes:
    """Encode a request for the log.

    A list of dicts is stored as it is if `raw` (the model has columns that encode it), otherwise hashed to `width`
    features.
    """
    kind, shape, arrays, records = _rows(request.X, width, raw)
    n = shape[0]
    weights = validation.weights(WHO, request.sample_weight, n)
    block = _EncodedBlock(
        version=VERSION,
        kind=kind,
        shape=shape,
        arrays=arrays,
        records=records,
        y=_values("y", validation.labels(WHO, request.y, n) if _plain_numbers(request.y) else request.y, n),
        tasks=_values("tasks", request.tasks, n),
        classes=_values("classes", request.classes, None),
        weights=None if weights is None else _array(weights),
    )
    return _bytes(block)


def encode_forget(task: Any) -> bytes:
    """Encode the request to forget a task."""
    return _bytes(_EncodedBlock(version=VERSION, kind="forget", tasks=_values("task", [task], 1)))


def decode_block(payload: bytes) -> Block:
    """Decode a block of the log."""
    block = _decoder.decode(payload)
    if block.version != VERSION:
        raise refuse(WHO, "the log", f"of version {VERSION}", f"version {block.version}",
                     "Open the directory with a newer budgetron.")  # fmt: skip
    if block.kind == "dense":
        X: Any = _numbers(block.arrays[0]).reshape(block.shape)
    elif block.kind == "csr":
        data, indices, indptr = map(_numbers, block.arrays)
        X = sparse.csr_matrix((data, indices, indptr), shape=block.shape)
    else:
        X = block.records
    weights = None if block.weights is None else _numbers(block.weights)
    return Block(block.kind, X, _read(block.y), _read(block.tasks), _read(block.classes), weights)


def without_first_rows(payload: bytes, n: int) -> bytes:
    """Encode the same request without its first n rows."""
    block = decode_block(payload)
    rest = [None if values is None else values[n:] for values in (block.X, block.y, block.tasks, block.sample_weight)]
    X, y, tasks, weights = rest
    request = Request(X, y, tasks, classes=block.classes, sample_weight=weights)
    return encode_request(request, None, block.kind == "records")


def are_records(X: Any) -> bool:
    """Whether X is a list of dicts. A list of dicts and other rows is rejected."""
    if not (isinstance(X, Sequence) and not isinstance(X, str) and len(X) and isinstance(X[0], Mapping)):
        return False
    if not all(isinstance(row, Mapping) for row in X):
        raise refuse(WHO, "X", "a list of dicts, or rows of numbers", "both in one list")
    return True


def hashed(records: Sequence[Mapping[str, Any]], width: int | None) -> Any:
    """Hash dicts of features to sparse rows, with the same hash as `learn_one`."""
    return hashed_rows(WHO, records, width or DICT_FEATURES)


def _rows(X: Any, width: int | None, raw: bool) -> tuple[str, tuple[int, int], list[Any], list[Any]]:
    if are_records(X):
        if raw:
            return "records", (len(X), 0), [], [dict(row) for row in X]
        X = hashed(X, width)
    rows: Any = validation.matrix(WHO, X)
    is_sparse = bool(sparse.issparse(rows))
    shape = (int(rows.shape[0]), int(rows.shape[1]))
    if is_sparse:
        return "csr", shape, [_array(rows.data), _array(rows.indices), _array(rows.indptr)], []
    return "dense", shape, [_array(rows)], []


def _plain_numbers(y: Any) -> bool:
    return y is None or (isinstance(y, np.ndarray) and y.dtype.kind in "iufb")


def _values(parameter: str, values: Any, n: int | None) -> Any:
    """Encode labels or tasks: an array of numbers as its bytes, everything else value by value."""
    if values is None:
        return None
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "iufb":
            return _array(_counted(parameter, values, n))
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise refuse(WHO, parameter, "a list or array with one value per row", shown(values))
    values = _counted(parameter, list(values), n)
    try:
        return [value if type(value) in _JSON_TYPES else encoded(_item(value)) for value in values]
    except NoJSON:
        raise refuse(
            WHO, parameter, "numbers, strings or other plain values (bytes, date, UUID, tuple)", shown(values)
        ) from None


_JSON_TYPES = frozenset({bool, float, int, str})  # written as they are; other types are encoded with their name


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _counted(parameter: str, values: Any, n: int | None) -> Any:
    if n is not None and len(values) != n:
        raise refuse(WHO, parameter, f"as long as X, which has {n} rows", f"{len(values)} values")
    return values


def _array(values: NDArray[Any]) -> tuple[str, bytes]:
    values = np.ascontiguousarray(values)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return little.dtype.str, little.tobytes()


def _numbers(encoded_array: Any) -> NDArray[Any]:
    dtype, content = encoded_array
    return np.frombuffer(content, dtype=np.dtype(dtype))


def _read(values: Any) -> Any:
    if values is None:
        return None
    # An array is the pair (dtype, bytes). A list of two labels cannot be mistaken for one: bytes labels are encoded.
    if len(values) == 2 and isinstance(values[1], bytes):
        return _numbers(values)
    return [decoded(value) if isinstance(value, list) else value for value in values]


def _bytes(block: _EncodedBlock) -> bytes:
    try:
        return _encoder.encode(block)
    except (TypeError, ValueError, OverflowError) as error:
        raise refuse(
            WHO, "the examples", "numbers, strings and other plain values, integers below 2**63",
            f"a value that cannot be encoded ({error})",
        ) from None
