"""A block of examples as bytes, and back: what the log holds.

    [version, kind, shape, arrays, records, y, tasks, classes, weights]      in msgpack

kind is "dense", "csr", "records" (raw, for a model with columns) or "forget". Arrays are little-endian bytes beside
their dtype; tasks and labels are written as in a model file, so any plain hashable may be one. What is learned is the
block read back from these bytes, at once and in any replay: the two cannot differ.
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
DIGEST = 8  # bytes of a row's digest


@dataclass(frozen=True)
class StreamRows:
    """Where the rows of a request belong in a stream that may be sent again: `Request.key` names the stream.

    `places` rise along the stream, within a request and from one to the next; a row sent again has the same place.
    `digests` are eight bytes per row, as `row_digest` makes them; with them other rows at the same places are noticed.
    """

    places: NDArray[np.int64]
    digests: bytes = b""

    def __post_init__(self) -> None:
        places = np.asarray(self.places, dtype=np.int64)
        if places.ndim != 1 or not len(places) or places[0] < 0 or (np.diff(places) <= 0).any():
            raise refuse(WHO, "places", "rising integers >= 0, one per row", shown(self.places))
        if self.digests and len(self.digests) != DIGEST * len(places):
            raise refuse(WHO, "digests", f"{DIGEST} bytes per row", f"{len(self.digests)} for {len(places)} rows")
        object.__setattr__(self, "places", places)

    def first(self, n: int) -> StreamRows:
        return StreamRows(self.places[:n], self.digests[: DIGEST * n])

    def after(self, n: int) -> StreamRows:
        return StreamRows(self.places[n:], self.digests[DIGEST * n :])


def row_digest(content: bytes) -> bytes:
    """What tells the content of one row from another, in `StreamRows.digests`."""
    return blake2b(content, digest_size=DIGEST).digest()


def row_digests(X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> bytes:
    """The digests of rows that are arrays or CSR matrices, with their labels, tasks and weights."""
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
    """One call of `learn`: labelled examples that are learned together or refused together.

    With `rows` the key names a stream, and these are some of its rows; without, it names this request alone.
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
    """A request as it is learned: read back from its bytes."""

    kind: str
    X: Any
    y: Any
    tasks: Any
    classes: Any
    sample_weight: Any


class _Written(msgspec.Struct, array_like=True):
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
_decoder = msgspec.msgpack.Decoder(_Written)


def written(request: Request, width: int | None, raw: bool) -> bytes:
    """The bytes of a request. `width` hashes dicts for a model without columns; `raw` keeps them for one that has."""
    kind, shape, arrays, records = _rows(request.X, width, raw)
    n = shape[0]
    weights = validation.weights(WHO, request.sample_weight, n)
    block = _Written(
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


def forgetting(task: Any) -> bytes:
    """The bytes of a wish that a task be forgotten."""
    return _bytes(_Written(version=VERSION, kind="forget", tasks=_values("task", [task], 1)))


def read(payload: bytes) -> Block:
    """The block that was written."""
    block = _decoder.decode(payload)
    if block.version != VERSION:
        raise refuse(WHO, "the log", f"of version {VERSION}", f"version {block.version}", "A newer budgetron reads it.")
    if block.kind == "dense":
        X: Any = _numbers(block.arrays[0]).reshape(block.shape)
    elif block.kind == "csr":
        data, indices, indptr = map(_numbers, block.arrays)
        X = sparse.csr_matrix((data, indices, indptr), shape=block.shape)
    else:
        X = block.records
    weights = None if block.weights is None else _numbers(block.weights)
    return Block(block.kind, X, _read(block.y), _read(block.tasks), _read(block.classes), weights)


def after(payload: bytes, n: int) -> bytes:
    """The bytes of the same request without its first rows."""
    block = read(payload)
    rest = [None if values is None else values[n:] for values in (block.X, block.y, block.tasks, block.sample_weight)]
    X, y, tasks, weights = rest
    request = Request(X, y, tasks, classes=block.classes, sample_weight=weights)
    return written(request, None, block.kind == "records")


def are_records(X: Any) -> bool:
    """Whether X is a list of dicts."""
    if not (isinstance(X, Sequence) and not isinstance(X, str) and len(X) and isinstance(X[0], Mapping)):
        return False
    if not all(isinstance(row, Mapping) for row in X):
        raise refuse(WHO, "X", "rows of one kind", "dicts and other rows together")
    return True


def hashed(records: Sequence[Mapping[str, Any]], width: int | None) -> Any:
    """Dicts of features as sparse rows, as `learn_one` hashes them."""
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
    """Labels or tasks: numbers as an array, all else one by one."""
    if values is None:
        return None
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "iufb":
            return _array(_counted(parameter, values, n))
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise refuse(WHO, parameter, "one for each row", shown(values))
    values = _counted(parameter, list(values), n)
    try:
        return [value if type(value) in _AS_THEY_ARE else encoded(_item(value)) for value in values]
    except NoJSON:
        raise refuse(
            WHO, parameter, "numbers, strings or other plain values (bytes, date, UUID, tuple)", shown(values)
        ) from None


_AS_THEY_ARE = frozenset({bool, float, int, str})


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _counted(parameter: str, values: Any, n: int | None) -> Any:
    if n is not None and len(values) != n:
        raise refuse(WHO, parameter, f"as long as X, {n}", str(len(values)))
    return values


def _array(values: NDArray[Any]) -> tuple[str, bytes]:
    values = np.ascontiguousarray(values)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return little.dtype.str, little.tobytes()


def _numbers(written: Any) -> NDArray[Any]:
    dtype, content = written
    return np.frombuffer(content, dtype=np.dtype(dtype))


def _read(values: Any) -> Any:
    if values is None:
        return None
    if len(values) == 2 and isinstance(values[1], bytes):
        return _numbers(values)
    return [decoded(value) if isinstance(value, list) else value for value in values]


def _bytes(block: _Written) -> bytes:
    try:
        return _encoder.encode(block)
    except (TypeError, ValueError, OverflowError) as error:
        raise refuse(
            WHO, "the examples", "numbers, strings and plain values, integers below 2**63", f"something else ({error})"
        ) from None
