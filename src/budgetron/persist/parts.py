"""Kernels and task graphs as JSON records and arrays, and back, for a closed list of kinds.

Public functions (`kernels.Gaussian`, `graphs.from_description`) make the kernels and graphs of a file, and validate
them. `check_arrays` is also used for the other arrays of a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from budgetron import graphs, kernels
from budgetron.engine.saved_state import verify_csr
from budgetron.errors import input_error, shown
from budgetron.file_errors import PICKLE, reported_as_file_error, require
from budgetron.persist import schema
from budgetron.persist.names import NoJSON, decode_name, encode_name

Array = NDArray[Any]
# The graphs that `check_graph` has accepted. Graphs are immutable, so it is enough to check each of them once.
_accepted: WeakSet[graphs.TaskGraph] = WeakSet()


def kernel_record(who: str, kernel: kernels.Kernel | None) -> schema.Kernel | None:
    """Return the record of a kernel; reject a kernel that is not one of this package."""
    if kernel is None:
        return None
    if type(kernel) is kernels.Linear:
        return schema.Linear(float(kernel.bias), bool(kernel.normalize))
    if type(kernel) is kernels.Polynomial:
        return schema.Polynomial(int(kernel.degree), float(kernel.bias), bool(kernel.normalize))
    if type(kernel) is kernels.Gaussian:
        gamma: Any = kernel.gamma if isinstance(kernel.gamma, str) else float(kernel.gamma)
        return schema.Gaussian(gamma, bool(kernel.normalize))
    raise input_error(
        who,
        "kernel",
        "Linear, Polynomial or Gaussian in a saved model",
        shown(kernel),
        f"A custom kernel is code, which model files do not contain. {PICKLE}",
    )


def kernel_of(record: schema.Kernel | None) -> kernels.Kernel | None:
    """Restore a kernel from its record."""
    if record is None:
        return None
    with reported_as_file_error("kernel", "a kernel of budgetron.kernels"):
        if isinstance(record, schema.Linear):
            return kernels.Linear(record.bias, record.normalize)
        if isinstance(record, schema.Polynomial):
            return kernels.Polynomial(record.degree, record.bias, record.normalize)
        return kernels.Gaussian(record.gamma, record.normalize)


def names_record(who: str, parameter: str, names: Iterable[Any]) -> list[Any]:
    """Encode names as JSON; reject the first that cannot be encoded."""
    encoded_names = []
    for name in names:
        try:
            encoded_names.append(encode_name(name))
        except NoJSON:
            raise input_error(
                who,
                parameter,
                "numbers, strings or other plain values in a saved model",
                shown(name),
                f"Use strings. {PICKLE}",
            ) from None
    return encoded_names


def graph_record(who: str, graph: graphs.TaskGraph) -> tuple[schema.Graph, dict[str, Array]]:
    """Return the record and the arrays of a graph."""
    description = graph.describe()
    tasks = None if description.get("tasks") is None else names_record(who, "tasks of the graph", description["tasks"])
    if type(graph) is graphs.Clique:
        coupling: Any = "inf" if math.isinf(graph.coupling) else float(graph.coupling)
        arrays = {} if tasks is None else {"clusters": description["clusters"]}
        return schema.Clique(coupling, graph.n_tasks, tasks), arrays
    if type(graph) is not graphs.Explicit or tasks is None:
        raise input_error(who, "graph", "a graph from budgetron.graphs in a saved model", shown(graph), PICKLE)
    if "similarity" in description:
        names = ("component", "similarity")
        return schema.Similarity(tasks), {name: description[name] for name in names}
    arrays = {name: description[name].astype(np.int64) for name in ("component", "indices", "indptr")}
    return schema.Sparse(tasks, bool(description["singular"])), arrays | {"data": description["data"]}


def graph_of(record: schema.Graph, arrays: Mapping[str, Array]) -> graphs.TaskGraph:
    """Restore a graph from its record and arrays; both are validated."""
    with reported_as_file_error("a task graph", "valid"):
        tasks = None if record.tasks is None else [decode_name(task) for task in record.tasks]
        k = 0 if tasks is None else len(tasks)
        if isinstance(record, schema.Clique):
            return _clique(record, tasks, arrays)
        require(k >= 1, "the number of tasks of a task graph", "at least 1", "0")
        if isinstance(record, schema.Similarity):
            check_arrays("graph", arrays, {"component": ("int64", (k,)), "similarity": ("float64", (k, k))})
            description: dict[str, Any] = {"similarity": arrays["similarity"]}
        else:
            nonzeros = len(arrays.get("indices", ()))
            check_arrays("graph", arrays, {
                "component": ("int64", (k,)), "data": ("float64", (nonzeros,)),
                "indices": ("int64", (nonzeros,)), "indptr": ("int64", (k + 1,)),
            })  # fmt: skip
            verify_csr("graph.", arrays["indptr"], arrays["indices"], k)
            description = {name: arrays[name] for name in ("data", "indices", "indptr")} | {"singular": record.singular}
        component = arrays["component"]
        in_range = component.min() >= 0 and component.max() < k
        require(in_range, "graph.component", f"component numbers from 0 to {k - 1}")
        graph = graphs.from_description({"kind": "explicit", "tasks": tasks, "component": component, **description})
        require(math.isfinite(graph.c_g), "the similarities of a task graph", "finite", "NaN or infinity")
        return graph


def check_graph(graph: graphs.TaskGraph, record: schema.Graph, arrays: Mapping[str, Array]) -> None:
    """Reject a graph if `graph_of` would reject its record and arrays.

    Restoring a graph of 100,000 tasks takes a second, and a durable model is saved again and again. So a graph that was
    accepted once is not checked again.
    """
    if graph not in _accepted:
        graph_of(record, arrays)
        _accepted.add(graph)


def _clique(record: schema.Clique, tasks: list[Any] | None, arrays: Mapping[str, Array]) -> graphs.TaskGraph:
    """Restore a complete, disconnected or clustered graph."""
    coupling = math.inf if isinstance(record.coupling, str) else record.coupling
    description = {"kind": "clique", "coupling": coupling, "n_tasks": record.n_tasks}
    check_arrays("graph", arrays, {} if tasks is None else {"clusters": ("int64", (len(tasks),))})
    if tasks is None:
        return graphs.from_description(description)
    graph = graphs.from_description({**description, "tasks": tasks, "clusters": arrays["clusters"]})
    assert isinstance(graph, graphs.Clique) and graph.mapped is not None
    in_order = list(graph.mapped.names) == tasks and np.array_equal(graph.mapped.numbers, arrays["clusters"])
    require(in_order, "graph.clusters", "tasks and clusters in the order of the task ids, no task twice")
    return graph


def check_arrays(where: str, arrays: Mapping[str, Array], expected: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Reject arrays whose names, dtypes or shapes differ from the expected ones, and numbers that are not finite."""
    for name in sorted(arrays.keys() ^ expected.keys()):
        word = "with" if name in arrays else "without"
        require(False, f"the tensors of {where}", "the tensors that the format lists", f"a file {word} {name[:60]!r}")
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        require(
            array.dtype.name == dtype and array.shape == shape,
            f"{where}.{name}",
            f"{dtype} of shape {shape}",
            f"{array.dtype.name} of shape {array.shape}",
        )
        if array.dtype.kind == "f":
            require(np.isfinite(array).all(), f"{where}.{name}", "finite", "NaN or infinity in it")
