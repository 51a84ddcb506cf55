"""The three forms of a request: the arguments of a call, the entry while it is committed, and the acknowledgement.

`Host` and `ShardedHost` process requests in the same steps: `entry_of` for each request, `group_into_commits`, then the
tables of `idempotency`, the log (or journal), the model, and `answer_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.durable.errors import KeyReused
from budgetron.errors import input_error, shown

if TYPE_CHECKING:
    from budgetron.learners.block_learner import Block

WHO = "Host"
DIGEST_BYTES = 8  # the hash of a row: long enough to notice accidental changes, but not to prevent forgery
MAX_KEY_LENGTH = 200


@dataclass(frozen=True)
class StreamRows:
    """The positions of a request's rows in a stream whose rows may be sent again. `Request.key` names the stream.

    Parameters
    ----------
    places : array of int
        One position per row, such as a line number or an offset in a file. Positions rise within a request and from one
        request to the next. A row that is sent again has the same position.
    digests : bytes, optional
        Eight bytes per row, from `row_digest` or `row_digests`. With them, a different row at the same position is
        rejected instead of skipped.
    """

    places: NDArray[np.int64]
    digests: bytes = b""

    def __post_init__(self) -> None:
        places = np.asarray(self.places, dtype=np.int64)
        if places.ndim != 1 or not len(places) or places[0] < 0 or (np.diff(places) <= 0).any():
            raise input_error(WHO, "places", "rising integers >= 0, one per row", shown(self.places))
        if self.digests and len(self.digests) != DIGEST_BYTES * len(places):
            raise input_error(
                WHO, "digests", f"{DIGEST_BYTES} bytes per row", f"{len(self.digests)} for {len(places)} rows"
            )
        object.__setattr__(self, "places", places)

    def first(self, n: int) -> StreamRows:
        return StreamRows(self.places[:n], self.digests[: DIGEST_BYTES * n])

    def after(self, n: int) -> StreamRows:
        return StreamRows(self.places[n:], self.digests[DIGEST_BYTES * n :])


def row_digest(content: bytes) -> bytes:
    """Hash the content of one row, for `StreamRows.digests`."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def row_digests(X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> bytes:
    """Hash every row of an array or CSR matrix, with its label, task, weight and offset, for `StreamRows.digests`.

    Two calls give equal digests only for X of the same type and dtype.
    """
    columns = [y, tasks, sample_weight, *([] if offset is None else [offset])]
    sides = [values.tolist() if hasattr(values, "tolist") else values for values in columns]
    if sparse.issparse(X):
        X = X.tocsr()
        cuts = [slice(*ends) for ends in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
        rows = (X.indices[cut].astype("<i8").tobytes() + X.data[cut].tobytes() for cut in cuts)
    else:
        rows = (row.tobytes() for row in np.ascontiguousarray(X))
    labels = (repr([None if side is None else side[i] for side in sides]).encode() for i in range(X.shape[0]))
    return b"".join(row_digest(row + label) for row, label in zip(rows, labels, strict=True))


@dataclass(frozen=True)
class Request:
    """The arguments of one call of `learn`: labelled examples that are learned together or rejected together.

    `key` is the idempotency key. Without `rows`, the key names this request alone. With `rows`, the key names a stream,
    and the examples are some rows of that stream. `block` has the same examples if they have already been checked: the
    coordinator of a sharded model checks them for its shards.
    """

    X: Any
    y: Any
    tasks: Any = None
    key: str | None = None
    classes: Any = None
    sample_weight: Any = None
    rows: StreamRows | None = None
    block: Block | None = None
    offset: Any = None


@dataclass(frozen=True)
class Learned:
    """The acknowledgement of one request.

    Attributes
    ----------
    position : int
        The number of the record in the log. If several records have rows of this request, the highest of their numbers.
    margins : array
        The margins of the rows just before they were learned. NaN for rows that were learned before this call, if their
        margins have been deleted or come from a model with another number of classes.
    repeated : bool
        Whether the request had been learned before under the same idempotency key.
    classes : array or None
        The labels that the margins belong to. None if they are not known, for example because the margins come from an
        earlier model, and the current model has another number of classes.
    n_before : int
        How many rows, counted from the first, had been learned before this call.
    """

    position: int
    margins: NDArray[np.float64]
    repeated: bool = False
    classes: Any = None
    n_before: int = 0


@dataclass
class Entry:
    """A request in progress: its bytes for the log and, later, its answer."""

    payload: bytes
    key: str | None = None
    rows: StreamRows | None = None
    digest: bytes = b""
    block: Block | None = None  # the examples, if they were checked already
    number: int = 0
    answer: Learned | Exception | None = None
    duplicate_of: Entry | None = None  # an earlier entry of the same commit with the same key
    n_before: int = 0  # rows that were learned before, and have been removed from the payload
    margins_before: NDArray[np.float64] | None = None  # the margins of those rows

    def learned(self, number: int, margins: NDArray[np.float64], classes: Any) -> Learned:
        """The answer after the rows were learned. It includes the margins of the rows that were learned before."""
        if self.n_before:
            before = self.margins_before
            if before is None or before.shape[1:] != margins.shape[1:]:  # from a model that has been replaced since
                before = np.full((self.n_before, *margins.shape[1:]), np.nan)
            margins = np.concatenate([before, margins])
        return Learned(number, margins, classes=classes, n_before=self.n_before)


def entry_of(request: Request, width: int | None, raw: bool) -> Entry:
    """Validate the key and the stream positions of a request, and encode its rows."""
    from budgetron.durable import blocks  # imported here because `blocks` imports this module

    check_key(request.key)
    payload = blocks.encode_request(request, width, raw)
    if request.rows is not None:
        if request.key is None:
            raise input_error(
                WHO, "rows", "given together with the key of their stream", "no key", "Pass key= as well."
            )
        n = len(request.y)
        if len(request.rows.places) != n:
            raise input_error(WHO, "rows", f"one place per example, {n}", f"{len(request.rows.places)} places")
        return Entry(payload, request.key, request.rows, block=request.block)
    digest = b"" if request.key is None else blake2b(payload, digest_size=16).digest()
    return Entry(payload, request.key, digest=digest, block=request.block)


def group_into_commits(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Group entries, in order, into commits.

    Two entries of one stream never share a commit, because the first decides which rows of the second are skipped.
    """
    group: list[Entry] = []
    streams: set[str | None] = set()
    for entry in entries:
        if entry.rows is not None:
            if entry.key in streams:
                yield group
                group, streams = [], set()
            streams.add(entry.key)
        group.append(entry)
    if group:
        yield group


def answer_of(entry: Entry) -> Learned | Exception:
    """The answer to an entry after its commit: an acknowledgement or an exception."""
    answer = entry.answer
    if entry.duplicate_of is not None and answer is None:
        if entry.digest != entry.duplicate_of.digest:
            return key_reused_error(entry.key)
        answer = answer_of(entry.duplicate_of)
        if isinstance(answer, Learned):
            return Learned(answer.position, answer.margins, True, answer.classes, len(answer.margins))
    assert answer is not None
    return answer


def check_key(key: Any, longest: int = MAX_KEY_LENGTH) -> None:
    """Reject an idempotency key that is not a printable string of 1 to `longest` characters."""
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= longest or not key.isprintable()):
        raise input_error(WHO, "key", f"a printable string of 1 to {longest} characters", shown(key))


def key_reused_error(key: Any) -> KeyReused:
    """The error for a key that was used before with different examples."""
    return KeyReused(
        f"{WHO}: the key {shown(key)} was used before with other examples. Send the same examples again to get their "
        "answer, or use another key."
    )
