"""Settings and state of an engine as JSON records and arrays, and back.

Called by `budgetron.learners.lifecycle.saved`. The rule declares its parameters and the arrays of its state
(`engine.reference.declaration`); this module knows no rule by name. The core and the NumPy engine read each other's
states. `check_size` must run before an engine is created from settings of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.engine.memory import bytes_of
from budgetron.engine.registry import rule_class
from budgetron.engine.saved_state import Layout
from budgetron.engine.settings import Settings
from budgetron.file_errors import invalid, reported_as_file_error, require
from budgetron.graphs import Explicit, TaskGraph
from budgetron.persist import schema
from budgetron.persist.parts import check_arrays, kernel_of, kernel_record
from budgetron.persist.verify import verify_examples

Array = NDArray[Any]


def settings_record(who: str, settings: Settings) -> schema.SettingsRecord:
    """Return the settings as a JSON record, without the graph, which has a record of its own."""
    dtype: Any = settings.dtype
    return schema.SettingsRecord(
        kernel=kernel_record(who, settings.kernel), n_features=settings.n_features, n_outputs=settings.n_outputs,
        sparse=settings.sparse, dtype=dtype, capacity=settings.capacity, pool=settings.pool,
        column_cache=settings.column_cache, parameters=msgspec.to_builtins(settings.parameters),
    )  # fmt: skip


def settings_of(rule: str, record: schema.SettingsRecord, graph: TaskGraph) -> Settings:
    """Restore settings from their record, and check that they agree with each other."""
    kernel = kernel_of(record.kernel)
    require(record.n_outputs != 2, "n_outputs", "1 for two classes, otherwise the number of classes", "2")
    has_pool = record.sparse and record.capacity is not None
    require(record.pool is None or has_pool, "pool", "null, unless rows are sparse and there is a capacity", "a number")
    declared = rule_class(rule)
    settings = Settings(
        rule=rule, kernel=kernel, graph=graph, n_features=record.n_features, n_outputs=record.n_outputs,
        sparse=record.sparse, dtype=record.dtype, capacity=record.capacity, pool=record.pool,
        column_cache=record.column_cache, parameters=_parameters_of(declared.Parameters, record),
    )  # fmt: skip
    declared.check(settings)
    return settings


def _parameters_of(kind: Any, record: schema.SettingsRecord) -> Any:
    """Restore the rule's parameters. Files of format 1 have the parameters of all rules side by side."""
    parameters = record.parameters
    old = {name: value for name in schema.OLD_PARAMETERS if (value := getattr(record, name)) is not msgspec.UNSET}
    if parameters is msgspec.UNSET:
        require(old.keys() == set(schema.OLD_PARAMETERS), "settings", "with parameters", "none")
        flagship = old.pop("flagship") or {}
        known = {field.encode_name for field in msgspec.structs.fields(kind)}
        require(not flagship.keys() - known, "flagship", "present for Budgetron only")
        parameters = {name: value for name, value in (old | flagship).items() if name in known}
    else:
        require(not old, "settings", "with parameters in one place", "two")
    try:
        return msgspec.convert(parameters, kind)
    except msgspec.ValidationError as error:
        raise invalid("the parameters of the rule", "valid for this format", f"invalid ones ({error})") from None


def state_arrays(settings: Settings, state: Mapping[str, Any]) -> dict[str, Array]:
    """Convert the state of an engine to the arrays of the file format."""
    plain = {name: np.asarray(values) for name, values in state.items()}
    fields = rule_class(settings.rule).layout(settings, plain)
    assert fields.keys() == plain.keys(), f"the rule does not declare {sorted(fields.keys() ^ plain.keys())}"
    shapes = _file_shapes(fields)
    return {name: plain[name].astype(dtype, copy=False).reshape(shape) for name, (dtype, shape) in shapes.items()}


def check_state(settings: Settings, arrays: Mapping[str, Array]) -> None:
    """Reject arrays that are not a state of an engine with these settings."""
    with reported_as_file_error("the state", "consistent with the settings"):
        rule = rule_class(settings.rule)
        check_arrays("state", arrays, _file_shapes(rule.layout(settings, arrays)))
        verify_examples(settings, arrays)
        rule.verify(settings, arrays)


def _file_shapes(fields: Layout) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return dtype and shape of each array in a file, where a single number is an array of one entry."""
    return {name: (field.dtype, field.shape or (1,)) for name, field in fields.items()}


def state_of(settings: Settings, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Convert the arrays of a file to the state that an engine restores."""
    fields = rule_class(settings.rule).layout(settings, arrays)
    return {name: array if fields[name].shape else array[0].item() for name, array in arrays.items()}


def check_size(settings: Settings, arrays: Mapping[str, Array], limit: int, compiled: bool) -> None:
    """Reject settings whose engine would allocate more than `limit` bytes. It runs before the engine is created."""
    # Without a capacity the compiled engine doubles its arrays as it grows, starting from 32 slots.
    stored = len(arrays["key"])
    slots = settings.capacity or max(32, 1 << (stored - 1).bit_length() if stored else 0)
    pool = settings.pool or max(16, 2 * len(arrays.get("indices", ())))
    sized = rule_class(settings.rule).sized_for(replace(settings, capacity=slots, pool=pool), arrays)
    needed = bytes_of(sized, compiled)
    if isinstance(settings.graph, Explicit):
        matrix = settings.graph.dense if settings.graph.dense is not None else settings.graph.matrix.data
        needed += 4 * matrix.nbytes  # for copies that are made while the graph is validated
    if needed > limit:
        raise invalid("the settings", f"of a model that needs at most {limit} bytes", f"a model that needs {needed}",
                  "If you trust the file and have the memory, raise max_bytes.")


def restore_engine(kind: Any, settings: Settings, state: dict[str, Any]) -> Any:
    """Create an engine of class `kind` that continues from the state."""
    with reported_as_file_error("the state", "a state that an engine can continue from"):
        return kind.restore(settings, state)
