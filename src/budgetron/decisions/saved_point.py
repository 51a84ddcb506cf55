"""Convert an operating point to the record and arrays of a model file, or to bytes, and back.

Model files contain the record and arrays; durable and distributed models use the bytes. All input is validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.decisions.costs import Costs
from budgetron.decisions.operating_point import OperatingPoint
from budgetron.decisions.score_grid import BINS
from budgetron.file_errors import reported_as_file_error, require
from budgetron.persist.parts import check_arrays
from budgetron.persist.schema import Point, SavedCosts

Arrays = dict[str, NDArray[Any]]
_MAX_COUNT = 2**53  # examples


def saved_point(point: OperatingPoint) -> tuple[Point, Arrays]:
    """Return the record and the arrays of a point. Margins that only determine its scale are not saved."""
    costs = None if point.costs is None else SavedCosts(point.costs.fp, point.costs.fn, point.costs.ask)
    record = Point(
        threshold=point.threshold,
        costs=costs,
        max_error=point.max_error,
        confidence=point.confidence,
        log_odds=point.log_odds,
        scale=point.scale,
        cuts=list(point.cuts),
        next_choice=point.next_choice,
        has_labels=point.labels is not None,
    )
    return record, {"counts": point.counts, "decided": point.decided} if record.has_labels else {}


def point_of(record: Point, arrays: Mapping[str, NDArray[Any]], labels: NDArray[Any], log_odds: bool) -> OperatingPoint:
    """Restore a point of a model with these labels; `log_odds` says whether the model's margins are log odds."""
    n = len(labels)
    require(record.log_odds == log_odds, "point.log_odds", "as the learner gives scores")
    with reported_as_file_error("point", "valid"):
        costs = None if record.costs is None else Costs(record.costs.fp, record.costs.fn, record.costs.ask)
        point = OperatingPoint(threshold=record.threshold, costs=costs, max_error=record.max_error,
                               confidence=record.confidence, margins=not record.log_odds)  # fmt: skip
        if record.has_labels:
            point.begin(labels)
    require(record.scale is not None or not log_odds, "point.scale", "given for log odds")
    require(record.scale == 1.0 or not log_odds, "point.scale", "1 for log odds")
    point.scale, point.next_choice = record.scale, record.next_choice
    if not record.has_labels:
        require(not arrays and not record.cuts, "the tensors", "without counts of a point without labels", "some")
        return point
    check_arrays("decisions", arrays, {
        "counts": ("int64", (1 if n == 2 else n, 2, BINS)), "decided": ("int64", (n, n + 1)),
    })  # fmt: skip
    for name in ("counts", "decided"):
        counts = arrays[name]
        in_range = (counts >= 0).all() and (counts <= _MAX_COUNT).all() and counts.sum(dtype=float) <= _MAX_COUNT
        require(bool(in_range), f"decisions.{name}", "counts of examples")
    require(len(record.cuts) == n, "point.cuts", f"{n} of them", str(len(record.cuts)))
    require(n > 2 or record.cuts[0] <= record.cuts[1], "point.cuts", "in ascending order")
    require(record.next_choice > int(arrays["counts"].sum()), "point.next_choice", "above the number of examples")
    point.counts, point.decided = (np.array(arrays[name]) for name in ("counts", "decided"))
    point.cuts = list(record.cuts)
    return point


class _Counted(msgspec.Struct):
    """The nonzero numbers of an array: their positions and values, little-endian."""

    places: bytes
    values: bytes


class _PointBytes(msgspec.Struct):
    point: Point
    counts: _Counted | None = None
    decided: _Counted | None = None


def point_to_bytes(point: OperatingPoint) -> bytes:
    """Encode a point without its labels. Most bins are empty, so only the others are written."""
    record, arrays = saved_point(point)
    return msgspec.msgpack.encode(_PointBytes(record, **{name: _sparse(array) for name, array in arrays.items()}))


def point_from_bytes(content: bytes, labels: NDArray[Any] | None) -> OperatingPoint:
    """Decode what `point_to_bytes` wrote; `labels` are the labels of the model, or None if they are not known yet."""
    saved = msgspec.msgpack.decode(content, type=_PointBytes)
    n = 0 if labels is None else len(labels)
    shapes = {"counts": (1 if n == 2 else n, 2, BINS), "decided": (n, n + 1)}
    arrays = {
        name: _dense(part, shape) for name, shape in shapes.items() if (part := getattr(saved, name)) is not None
    }
    return point_of(saved.point, arrays, np.empty(0) if labels is None else labels, saved.point.log_odds)


def _sparse(array: NDArray[np.int64]) -> _Counted:
    flat = array.ravel()
    nonzero = np.flatnonzero(flat)
    return _Counted(nonzero.astype("<i8").tobytes(), flat[nonzero].astype("<i8").tobytes())


def _dense(counted: _Counted, shape: tuple[int, ...]) -> NDArray[np.int64]:
    flat = np.zeros(int(np.prod(shape)), dtype=np.int64)
    positions, values = (np.frombuffer(part, dtype="<i8") for part in (counted.places, counted.values))
    in_range = len(positions) == len(values) and ((positions >= 0) & (positions < len(flat))).all()
    require(bool(in_range), "point", "counts of the labels of the model")
    flat[positions] = values
    return flat.reshape(shape)
