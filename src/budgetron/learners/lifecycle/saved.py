"""Conversion between a learner and the content of a model file.

A model file has a record (JSON) and arrays. Together they hold the constructor's parameters, the engine's current
settings, and everything learned. A learner restored from them continues bit for bit. `content_of` (for saving)
validates parameters, settings, graphs, state, labels, the operating point and columns like `model_of` (for loading), so
that errors in them are found when the model is saved. Called by `Learner.save`, `load`, and by durable and distributed
models.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from budgetron.decisions.saved_point import point_of, saved_point
from budgetron.engine import native
from budgetron.errors import InputError, ModelFileError, input_error, shown
from budgetron.file_errors import PICKLE, invalid, reported_as_file_error, require
from budgetron.graphs import TaskGraph
from budgetron.graphs.task_ids import is_named, task_id_of
from budgetron.learners.input.classes import Classes
from budgetron.learners.input.task_names import TaskNames
from budgetron.learners.input.validation import ONE_TASK
from budgetron.learners.lifecycle.guard import Guard
from budgetron.learners.registry import learner_class, learner_names
from budgetron.persist import ModelRecord, engines, pack, parts, schema
from budgetron.persist.columns import SavedColumns, check_columns
from budgetron.persist.names import NoJSON, decode_name, encode_name

Arrays = dict[str, NDArray[Any]]
_MAX_LABEL_BYTES = 64 * 2**20  # a forged file may name dtypes up to "<U9999999"; they must not allocate much
# NumPy's kind of a label's dtype → the Python type of the labels in the record.
_KINDS: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "U": str, "S": bytes, "O": object}


def content_of(model: Any) -> bytes:
    """Return the bytes of a model file for a fitted model. The caller holds the model's lock."""
    graphs = _graphs(model)
    saved, arrays = _record(model, graphs)
    text = schema.encode_record(saved)
    settings = model._engine.settings
    # Read the record back as `load` will: an error now is better than a file that cannot be opened later.
    try:
        decoded_record = schema.decode_record(text)
        for number, (graph, record) in enumerate(zip(graphs, decoded_record.graphs, strict=True)):
            parts.check_graph(graph, record, _with_prefix(arrays, f"graph.{number}."))
        settings = engines.settings_of(settings.rule, decoded_record.settings, settings.graph)
        engines.check_state(settings, _with_prefix(arrays, "state."))
        classes = _classes(decoded_record.labels)
        if decoded_record.point is not None:
            counted = _with_prefix(arrays, "decisions.")
            point_of(decoded_record.point, counted, classes.values, hasattr(model, "predict_proba"))
        if decoded_record.columns is not None:
            check_columns(decoded_record.columns, _with_prefix(arrays, "columns."), settings)
    except ModelFileError as error:
        raise InputError(f"{type(model).__name__}: this model cannot be saved: {error} {PICKLE}") from error
    return pack(text, arrays)


def _graphs(model: Any) -> list[TaskGraph]:
    """Return the graph of the engine, and also the parameter `graph` if `set_params` has changed it since."""
    graph = model._engine.settings.graph
    return [graph, model.graph] if isinstance(model.graph, TaskGraph) and model.graph != graph else [graph]


def _record(model: Any, graphs: list[TaskGraph]) -> tuple[ModelRecord, Arrays]:
    """Return everything that a model file contains: a record, and arrays by name."""
    who: Any = type(model).__name__
    # A subclass defined elsewhere has code that a file cannot contain, even if it has the name of a learner.
    engine, learners = model._engine, learner_names()
    if who not in learners or type(model) is not learner_class(who):
        raise input_error(
            "save",
            "the model",
            f"one of {', '.join(learners)} to be saved",
            shown(type(model)),
            f"A class of your own is code, which model files do not contain. {PICKLE}",
        )
    settings = engine.settings
    arrays = {f"state.{name}": array for name, array in engines.state_arrays(settings, engine.state()).items()}
    graph_records = []
    for number, graph in enumerate(graphs):
        record, described = parts.graph_record(who, graph)
        graph_records.append(record)
        arrays |= {f"graph.{number}.{name}": array for name, array in described.items()}
    feature_names = getattr(model, "feature_names_in_", None)
    columns = None if model._columns is None else model._columns.saved()
    if columns is not None:
        arrays |= {f"columns.{name}": array for name, array in columns.arrays.items()}
    point = None
    if model._point is not None:
        point, counted = saved_point(model._point)
        arrays |= {f"decisions.{name}": array for name, array in counted.items()}
    saved = ModelRecord(
        learner=who,
        version=_version(),
        parameters=_parameters(model, len(graphs) - 1),
        settings=engines.settings_record(who, settings),
        graphs=graph_records,
        labels=_labels(who, model._classes),
        names=_names(model._names),
        name_limit=model._names.limit,
        feature_names=(
            None if feature_names is None else parts.names_record(who, "feature names", feature_names.tolist())
        ),
        columns=None if columns is None else columns.plan,
        tasked=model._tasked,
        offset=bool(model._has_offset),
        point=point,
    )
    return saved, arrays


def model_of(saved: ModelRecord, arrays: Mapping[str, NDArray[Any]], limit: int, engine: str | None) -> Any:
    """Restore a model from a record and arrays. Everything in them is validated before it is used."""
    require(saved.learner in learner_names(), "learner", f"one of {', '.join(learner_names())}", shown(saved.learner))
    learner = learner_class(saved.learner)
    learner._check_file(saved.parameters)
    by_graph = [_with_prefix(arrays, f"graph.{number}.") for number in range(len(saved.graphs))]
    state, columns = _with_prefix(arrays, "state."), _with_prefix(arrays, "columns.")
    counted = _with_prefix(arrays, "decisions.")
    # Every tensor must belong to a known group: a file must not carry unchecked content.
    n_known = len(state) + len(columns) + len(counted) + sum(map(len, by_graph))
    require(n_known == len(arrays), "the tensors", "named model, state.…, columns.…, decisions.… or graph.…", "others")
    require(saved.point is not None or not counted, "the tensors", "without decisions.… if there is no point", "some")
    graphs = [parts.graph_of(record, described) for record, described in zip(saved.graphs, by_graph, strict=True)]
    # The order matters: sizes are checked against `limit` before the engine allocates arrays of these sizes.
    model = learner(**_arguments(learner, saved.parameters, graphs))
    if engine is not None:
        model.engine = engine
    settings = engines.settings_of(learner.rule, saved.settings, graphs[0])
    if saved.columns is not None:
        check_columns(saved.columns, columns, settings)
    require(saved.columns is not None or not columns, "the tensors", "without columns.… if there is no plan", "some")
    classes = _classes(saved.labels)
    require(classes.n_outputs == settings.n_outputs, "labels", "as many as the outputs", str(len(classes.values)))
    engines.check_state(settings, state)
    kind = model._engine_kind(settings.kernel)
    engines.check_size(settings, state, limit, kind is native.Engine)
    model._guard, model._graph, model._classes = Guard(), graphs[0], classes
    model._names = _task_names(saved, graphs[0])
    model._engine = engines.restore_engine(kind, settings, engines.state_of(settings, state))
    model._tasked = saved.tasked or bool((model._engine.task_ids != ONE_TASK).any())  # older files have no `tasked`
    require(learner.takes_offset or not saved.offset, "offset", f"false for a {saved.learner}", "true")
    model._has_offset = saved.offset
    model.n_features_in_ = settings.n_features
    if saved.point is not None:
        model._point = point_of(saved.point, counted, classes.values, hasattr(model, "predict_proba"))
    if saved.columns is not None:
        model._columns = SavedColumns(saved.columns, columns)
    if saved.feature_names is not None:
        names_in = [decode_name(name) for name in saved.feature_names]
        require(len(names_in) == settings.n_features and all(isinstance(name, str) for name in names_in),
                "feature_names", f"{settings.n_features} strings")  # fmt: skip
        model.feature_names_in_ = np.array(names_in, dtype=object)
    return model


def _task_names(saved: ModelRecord, graph: TaskGraph) -> TaskNames:
    """Restore the names of tasks; reject names that a model would not store."""
    names = TaskNames(graph, saved.name_limit)
    with reported_as_file_error("names", "names of tasks"):
        for name in map(decode_name, saved.names):
            task_id = task_id_of(name)
            is_new = is_named(task_id) and names.put(task_id, name)
            require(is_new, "names", "names of tasks that are not integers, without duplicates")
    return names


def _with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _version() -> str:
    """Return the version of this package."""
    try:
        return version("budgetron")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


# ---- parameters


def _parameters(model: Any, graph: int) -> dict[str, Any]:
    """Return the constructor's parameters as values for JSON. `graph` is the graph's position in the file."""
    who, written = type(model).__name__, {}
    for name, value in model.get_params(deep=False).items():
        if name == "kernel":
            value = parts.kernel_record(who, value)
        elif name == "graph" and isinstance(value, TaskGraph):
            value = graph
        elif name == "class_weight" and isinstance(value, Mapping):
            labels = parts.names_record(who, "labels of class_weight", [_item(label) for label in value])
            value = list(zip(labels, map(float, value.values()), strict=True))
        try:
            # Checked against the type that `load` will check, so that a bad value is reported when it is saved.
            written[name] = msgspec.to_builtins(model._parameter_to_json(name, _item(value)))
            _check_parameter(type(model), name, written[name])
        except (TypeError, ModelFileError) as error:
            raise input_error(
                who,
                name,
                "a number or string within the range that the model file allows",
                f"another value ({error})",
                f"Change it with set_params. {PICKLE}",
            ) from None
    return written


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_parameter(learner: Any, name: str, value: Any) -> None:
    """Reject a JSON value of the wrong type: `COMMON_PARAMETERS` and the constructor's signature name the types."""
    expected = schema.COMMON_PARAMETERS.get(name) or learner._parameter_type(name)
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        raise invalid(f"parameters.{name}", f"valid for {learner.__name__}", f"another value ({error})") from None


def _arguments(learner: Any, parameters: dict[str, Any], graphs: list[TaskGraph]) -> dict[str, Any]:
    """Return the constructor's arguments from the parameters in a model file."""
    # The file must have exactly the constructor's parameters: a missing one would silently get its default.
    expected = set(learner._get_param_names())
    accepted = f"the parameters of {learner.__name__}"
    require(parameters.keys() == expected, "parameters", accepted, f"{sorted(parameters)}")
    for name, value in parameters.items():
        _check_parameter(learner, name, value)
    parameters = dict(parameters)
    if "kernel" in parameters:
        parameters["kernel"] = parts.kernel_of(msgspec.convert(parameters["kernel"], schema.Kernel | None))
    if parameters.get("graph") is not None:
        # The file stores the graph as its position in the list of graphs.
        require(parameters["graph"] == len(graphs) - 1, "parameters.graph", "the last graph of the file")
        parameters["graph"] = graphs[parameters["graph"]]
    else:
        require(len(graphs) == 1, "graphs", "a single graph if parameters.graph is null", "two")
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {decode_name(label): float(weight) for label, weight in parameters["class_weight"]}
    with reported_as_file_error("parameters", f"valid for {learner.__name__}"):
        return {name: learner._parameter_from_json(name, value) for name, value in parameters.items()}


# ---- labels and names


def _labels(who: str, classes: Classes) -> schema.Labels:
    """Return the labels as a record; reject kinds of labels that a file cannot contain."""
    values = classes.values
    if values.dtype.kind not in "biufUSO" or (values.dtype.kind == "f" and values.dtype.itemsize > 8):
        accepted = "numbers, strings or other plain Python values in a saved model"
        raise input_error(who, "classes", accepted, f"dtype {values.dtype}", PICKLE)
    # Always little-endian, so that the file does not depend on the machine.
    dtype = "O" if values.dtype.kind == "O" else values.dtype.newbyteorder("<").str
    return schema.Labels(dtype, parts.names_record(who, "labels", values.tolist()), classes.settled)


def _classes(record: schema.Labels) -> Classes:
    """Restore the labels, and check everything that the learner relies on."""
    with reported_as_file_error("labels", "sorted labels of one kind without duplicates"):
        labels = [decode_name(label) for label in record.values]
        dtype = np.dtype(record.dtype)
        require(dtype.itemsize * len(labels) <= _MAX_LABEL_BYTES, "labels", f"of at most {_MAX_LABEL_BYTES} bytes")
        of_one_kind = all(isinstance(label, _KINDS[dtype.kind]) for label in labels)
        require(of_one_kind, "labels", f"values of dtype {record.dtype}")
        # Labels may be longer than the dtype says; the comparison below detects that.
        values = np.empty(len(labels), dtype=dtype)
        values[:] = labels
        require(values.tolist() == labels, "labels", f"values of dtype {record.dtype}")
        ascending = all(bool(a < b) for a, b in pairwise(labels))  # type: ignore[operator]
        require(ascending, "labels", "sorted, without duplicates")
        require(record.settled or labels == [0, 1], "labels", "0 and 1 while they are not settled")
        return Classes(values, record.settled)


def _names(names: TaskNames) -> list[Any]:
    """Encode the names that JSON can represent; other tasks continue under their task ids."""
    written = []
    for task_id, name in names.items():
        try:
            text = encode_name(name)
            # A name is useless if it does not hash to its id after the round trip through JSON.
            if task_id_of(decode_name(text)) == task_id:
                written.append(text)
        except (NoJSON, InputError):
            continue
    return written
