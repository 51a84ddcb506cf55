"""Convert the features, tasks and offsets of requests to the arguments of a host.

Only what is particular to requests is checked here: lengths, and objects that hold sparse rows or features by name. The
rest is validated with the model, in `budgetron.learners.input.validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray
from scipy import sparse

from budgetron.durable import HostedModel
from budgetron.errors import input_error, input_type_error, shown
from budgetron.learners.input.hashing import DICT_FEATURES
from budgetron.learners.input.nested import flattened
from budgetron.service.settings import Limits

WHO = "request"
_SPARSE = {"indices", "values"}
_SCALARS = (str, int, float, bool, type(None))


def rows_of(hosted: HostedModel, features: Sequence[Any], limits: Limits) -> Any:
    """X for the host: an array, a CSR matrix, or dicts. The host encodes dicts with its columns, or hashes them."""
    kind = type(features[0])
    for row in features:
        if type(row) is not kind:
            raise input_type_error(WHO, '"features"', "of one kind in one request", "lists and objects")
        if len(row) > limits.features:
            raise input_error(WHO, '"features"', f"at most {limits.features} numbers per example", str(len(row)))
    if kind is list:
        columns = hosted.columns
        if columns is not None and columns.plan.layout == "table" and len(features[0]) != hosted.width:
            accepted = f"an object with values of the columns {shown(columns.names, 200)}"
            raise input_type_error(WHO, '"features"', accepted, f"a list of {len(features[0])} numbers")
        return _dense(features)
    if features[0].keys() == _SPARSE and isinstance(features[0]["indices"], list):
        return _sparse(hosted, features, limits)
    return _by_name(hosted, features, limits)


def tasks_of(tasks: Sequence[Any], limits: Limits) -> list[Any] | None:
    """One task per example, or None if no example has one."""
    n_without = tasks.count(None)
    if n_without == len(tasks):
        return None
    if n_without:
        accepted = "given for every example of a request, or for none"
        raise input_error(WHO, '"task"', accepted, f"{n_without} of {len(tasks)} examples without a task")
    for task in tasks:
        check_text("task", task, limits)
    return list(tasks)


def offsets_of(offsets: Sequence[Any]) -> NDArray[np.float64] | None:
    """Another model's score per example, or None if no example has one."""
    n_without = offsets.count(UNSET)
    if n_without == len(offsets):
        return None
    if n_without:
        accepted = "given for every example of a request, or for none"
        raise input_error(WHO, '"offset"', accepted, f"{n_without} of {len(offsets)} examples without an offset")
    if len({len(offset) if isinstance(offset, list) else 0 for offset in offsets}) > 1:
        raise input_error(
            WHO, '"offset"', "of one form in one request", "numbers and lists, or lists of several lengths"
        )
    return np.array(offsets, dtype=np.float64)


def check_text(what: str, value: Any, limits: Limits) -> None:
    """Reject a task or label that is too long, or an integer that the log cannot hold."""
    if isinstance(value, str) and len(value) > limits.text:
        raise input_error(WHO, f'"{what}"', f"at most {limits.text} characters long", f"{len(value)} characters")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise input_error(WHO, f'"{what}"', "an integer of 64 bits", shown(value))


def _dense(features: Sequence[list[float]]) -> Any:
    width = len(features[0])
    if not width:
        raise input_error(WHO, '"features"', "at least one number", "an empty list")
    for row in features:
        if len(row) != width:
            raise input_error(WHO, '"features"', "of one length in one request", f"{width} and {len(row)} numbers")
    return np.array(features, dtype=np.float64)


def _sparse(hosted: HostedModel, features: Sequence[dict[str, Any]], limits: Limits) -> Any:
    width = hosted.width or DICT_FEATURES
    counts, columns, data = [0], [], []
    for row in features:
        indices, values = row.get("indices"), row.get("values")
        if row.keys() != _SPARSE or not isinstance(indices, list) or not isinstance(values, list):
            raise input_error(
                WHO, '"features"', 'objects that all have "indices" and "values"', "other objects among them"
            )
        if len(indices) != len(values) or len(indices) > limits.features:
            accepted = f"as many values as indices, at most {limits.features}"
            raise input_error(WHO, '"features"', accepted, f"{len(indices)} indices and {len(values)} values")
        if not all(type(index) is int and 0 <= index < width for index in indices):
            raise input_error(WHO, '"indices"', f"integers from 0 to {width - 1}", shown(indices))
        if not all(type(value) in (int, float) and abs(value) < 1e300 for value in values):
            raise input_error(WHO, '"values"', "numbers between -1e300 and 1e300", shown(values))
        columns += indices
        data += values
        counts.append(len(columns))
    matrix = (np.array(data, dtype=np.float64), np.array(columns, dtype=np.int32), np.array(counts))
    return sparse.csr_matrix(matrix, shape=(len(features), width))


def _by_name(hosted: HostedModel, features: Sequence[Mapping[str, Any]], limits: Limits) -> Any:
    features = [flattened(row) for row in features]
    for row in features:
        if len(row) > limits.features:
            raise input_error(WHO, '"features"', f"at most {limits.features} numbers per example", str(len(row)))
        for name, value in row.items():
            if not isinstance(value, _SCALARS) and not (isinstance(value, list) and all(map(_is_scalar, value))):
                accepted = "a number, a string, null, an object of these or a list of these"
                raise input_type_error(WHO, f"feature {shown(name)}", accepted, f"a list with {_type_names(value)}")
            if type(value) is int and abs(value) >= 2**63:
                raise input_error(WHO, f"feature {shown(name)}", "an integer of 64 bits, or a float", shown(value))
    if hosted.columns is not None:
        return hosted.columns.checked(features, WHO, '"features"')
    names = getattr(hosted.model, "feature_names_in_", None)
    if names is not None:
        return _in_order(names.tolist(), features)
    if hosted.is_fitted and not hosted.sparse:
        width = hosted.width
        raise input_type_error(WHO, '"features"', f"a list of {width} numbers, like the first example", "an object",
                               "A model takes either lists or objects, not both.")  # fmt: skip
    return list(features)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, _SCALARS)


def _type_names(values: list[Any]) -> str:
    return " and ".join(sorted({type(value).__name__ for value in values if not _is_scalar(value)}))


def feature_warning(hosted: HostedModel, features: Any) -> str | None:
    """A warning if some features are unknown to the model, or most of its columns are missing; otherwise None."""
    if hosted.columns is None or not isinstance(features, dict):
        return None
    return hosted.columns.doubt(flattened(features))


def _in_order(names: list[str], features: Sequence[Mapping[str, Any]]) -> Any:
    """Features by name in the order of the columns of the data frame that the model was trained on."""
    rows = []
    for row in features:
        missing = [name for name in names if name not in row]
        others = [name for name in row if name not in names]
        if missing or others:
            got = f"one without {shown(missing)}" if missing else f"one with {shown(others)} as well"
            raise input_error(WHO, '"features"', f"an object with the columns {shown(names)}", got)
        if not all(type(row[name]) in (int, float, bool) for name in names):
            raise input_type_error(WHO, '"features"', "numbers for this model", shown(row))
        rows.append([float(row[name]) for name in names])
    return np.array(rows, dtype=np.float64)
