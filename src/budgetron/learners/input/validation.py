"""Input validation: X, y, tasks, sample weights, offsets and n_jobs, for every entry point.

Local, sharded and served models call the functions in here. `convert` needs no model: it turns the arguments of a call
into arrays, or raises an `InputError`. `Learner.check` then checks the arrays against a model. Nothing in here changes
a model, so a rejected call leaves it as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from budgetron.errors import InputError, input_error, input_type_error, is_integer, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.input import rejections
from budgetron.learners.input.frames import check_frame, check_in_memory, is_frame
from budgetron.learners.input.sparse_matrices import as_format, canonical_csr

ONE_TASK = 0  # the task id that `tasks=None` stands for
# scikit-learn's cross-validation shows this text in a warning (the score is NaN), so it must tell what to do there.
NAME_THE_TASKS = (
    "Pass tasks= in every call. The scorers of scikit-learn do not: use scoring=budgetron.scorer(...), or put the task "
    "into a column of X and name it with task_column=."
)
NOT_GIVEN: Any = object()  # the default of `y` when predicting; `y=None` is an error


Method = TypeVar("Method", bound=Callable[..., Any])


def with_named_arguments(method: Method) -> Method:
    """Decorate a method of a learner that takes arguments by name: a wrong call raises an error with a remedy."""

    @wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except TypeError:
            error = rejections.wrong_arguments(self._who, method, given, named)
            if error is None:  # raised inside the method
                raise
            raise error from None

    return cast(Method, call)


@dataclass(frozen=True)
class Examples:
    """The arguments of a call as arrays of one length. Whether they fit a certain model is not checked yet."""

    rows: Any  # a C-contiguous array or a canonical CSR matrix of float32 or float64
    labels: NDArray[Any] | None = None  # None: to be predicted
    tasks: Any = None  # an array, list or tuple; None: no tasks
    weights: NDArray[np.float64] | None = None
    source: Any = None  # X as it was passed, which may have column names
    offsets: NDArray[np.float64] | None = None  # another model's scores, (n,) or (n, classes)

    def __len__(self) -> int:
        return int(self.rows.shape[0])


def convert(
    who: str, X: Any, y: Any = NOT_GIVEN, tasks: Any = None, sample_weight: Any = None, offset: Any = None
) -> Examples:
    """Convert the arguments of a call, with labels (to learn) or without (to predict)."""
    rows = matrix(who, X)
    n = rows.shape[0]
    labels_ = None if y is NOT_GIVEN else labels(who, y, n)
    checked_weights = weights(who, sample_weight, n)
    checked_tasks = None if tasks is None else task_sequence(who, tasks, n)
    return Examples(rows, labels_, checked_tasks, checked_weights, X, offsets(who, offset, n))


def matrix(who: str, X: Any) -> Any:
    """Convert X to a C-contiguous array or a canonical CSR matrix of float32 or float64. Copies only if needed."""
    if X is None:
        raise input_type_error(who, "X", "an array, a data frame or a sparse matrix", "None")
    if not isinstance(X, np.ndarray) and is_frame(X):
        check_frame(who, X)
    if not sparse.issparse(X):
        return _dense(who, X)
    _check_extent(who, X.shape)
    return canonical_csr(who, X)


def vector(who: str, x: Any, n_features: int | None, dtype: str) -> NDArray[Any]:
    """Convert x to one dense row."""
    # This function runs once per example, so the usual case, a numeric array, skips the general conversion.
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
        x = _numbers(who, "x", x)
    if x.ndim != 1:
        raise input_error(
            who,
            "x",
            "one row, a one-dimensional array or a dict",
            f"shape {x.shape}",
            "Pass a single row, such as X[0]. partial_fit, predict and predict_then_learn take many.",
        )
    if n_features is not None and len(x) != n_features:
        raise input_error(who, "x", f"a row of {n_features} numbers, like the first row", f"{len(x)}")
    return np.ascontiguousarray(x, dtype=dtype)


def threads(who: str, n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`: itself, all cores for −1, one for None."""
    if n_jobs is None:
        return 1
    if not is_integer(n_jobs) or not (n_jobs == -1 or 1 <= n_jobs <= 1024):
        raise input_error(who, "n_jobs", "an integer from 1 to 1024, −1 for all cores, or None for one", shown(n_jobs))
    if n_jobs > 0:
        return int(n_jobs)
    from joblib import cpu_count  # counts only the cores that this process may use

    return int(cpu_count())


def labels(who: str, y: Any, n: int) -> NDArray[Any]:
    """Convert y to a one-dimensional array of n labels."""
    if y is None:
        raise input_type_error(
            who, "y", "one label for each row", "None", f"{who} requires y to be passed, but the target y is None."
        )
    if not isinstance(y, np.ndarray | list):
        check_in_memory(who, "y", y)
    array = np.asarray(y)
    # NumPy turns a list of mixed numbers and strings into strings; reject it instead of learning "1" for 1.
    if (
        array.dtype.kind in "US"
        and not isinstance(y, np.ndarray)
        and not all(isinstance(label, str | bytes) for label in y)
    ):
        raise input_error(who, "y", "labels of one kind", shown(y), "Make them all strings, or all numbers.")
    # scikit-learn's own estimators accept a column vector with this warning, and its checks require it.
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=5,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise input_error(who, "y", "one-dimensional", f"shape {array.shape}", "y should be a 1d array.")
    if len(array) != n:
        raise input_error(who, "y", f"as long as X, {n} labels", f"{len(array)}")
    if array.dtype.kind == "c":
        raise input_type_error(who, "y", "labels", "complex numbers", "Unknown label type: complex.")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise input_error(who, "y", "finite labels", "Input y contains NaN or infinity")
        # The words "Unknown label type" are required by scikit-learn's estimator checks.
        if (array != np.floor(array)).any():
            raise input_error(
                who,
                "y",
                "class labels, not continuous values",
                f"fractions such as {array[array != np.floor(array)][0]}",
                "Unknown label type: continuous. Turn the values into classes first.",
            )
    if array.dtype.kind == "O" and any(label is None or label != label for label in array):
        raise input_error(who, "y", "labels without missing values", "None or NaN among them: Input y contains NaN")
    return array


def weights(who: str, values: Any, n: int, parameter: str = "sample_weight") -> NDArray[np.float64] | None:
    """Check the weight of each example, or of each class: finite and not negative."""
    if values is None:
        return None
    if np.isscalar(values):
        values = np.full(n, values)
    array = _numbers(who, parameter, values).astype(np.float64)
    if array.shape != (n,):
        raise input_error(who, parameter, f"one number per item, {n} in all", f"shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        wrong = array[~(np.isfinite(array) & (array >= 0))]
        raise input_error(who, parameter, "finite and not negative", shown(float(wrong[0])))
    return np.ascontiguousarray(array)


LARGEST_OFFSET = 1e6  # log odds, far beyond practical certainty (20); products with an offset stay finite


def offsets(who: str, values: Any, n: int) -> NDArray[np.float64] | None:
    """Check another model's scores in log odds: one per row, or one per row and class."""
    if values is None:
        return None
    array = np.ascontiguousarray(_numbers(who, "offset", values).astype(np.float64))
    if array.ndim not in (1, 2) or len(array) != n:
        raise input_error(who, "offset", f"one score per row, {n} in all", f"shape {array.shape}")
    if not (np.abs(array) <= LARGEST_OFFSET).all():
        wrong = array[~(np.abs(array) <= LARGEST_OFFSET)]
        remedy = "Log odds are log(p / (1 − p)); clip p to 0.000001 … 0.999999."
        raise input_error(who, "offset", "log odds from −1e6 to 1e6", shown(float(wrong.ravel()[0])), remedy)
    return array


def _dense(who: str, X: Any) -> NDArray[Any]:
    """Return X as a contiguous two-dimensional array of numbers."""
    array = _numbers(who, "X", X)
    if array.ndim != 2:
        raise input_error(
            who,
            "X",
            "two-dimensional",
            f"shape {array.shape}",
            "Reshape your data: X.reshape(1, -1) is one row, X.reshape(-1, 1) one column.",
        )
    _check_extent(who, array.shape)
    return np.ascontiguousarray(array)


def _numbers(who: str, parameter: str, values: Any) -> NDArray[Any]:
    """Convert values to an array of float32 or float64; raise an error that names the problem if this fails."""
    try:
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except ValueError:
        raise input_error(who, parameter, "numbers, with all rows of the same length", shown(values)) from None
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise input_error(who, parameter, "without masked values", "a masked array", "Fill or drop the masked values.")
    if array.dtype.kind == "c":
        raise input_type_error(who, parameter, "real numbers", f"dtype {array.dtype}", "Complex data not supported.")
    if array.dtype.kind in "mM":
        remedy = "Convert dates to numbers, such as days since a fixed date."
        raise input_type_error(who, parameter, "numbers", f"dtype {array.dtype}", remedy)
    # Text and objects: numbers that are written as text are accepted.
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise input_error(who, parameter, "numbers within the range of float64", shown(values)) from None
        except (TypeError, ValueError) as error:
            kind = input_type_error if isinstance(error, TypeError) else input_error
            raise kind(
                who, parameter, "numbers", f"dtype {array.dtype}", f"Encode text and categories first ({error})."
            ) from None
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _check_extent(who: str, shape: tuple[int, ...]) -> None:
    """Reject X without rows or without columns. The words are those that scikit-learn's checks expect."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise input_error(
                who, "X", f"at least one {what}", f"0 {what}(s) (shape={shape}) while a minimum of 1 is required"
            )


def check_rows(who: str, engine: Any, rows: Any, names: Any = None) -> None:
    """Reject rows with NaN, infinity or values for which the kernel would overflow. `names` are the column names."""
    bad = engine.first_bad_row(rows)
    if bad is not None:
        raise rejections.bad_row(who, rows, bad, names)


# ---- tasks
#
# A model that was never given tasks has a single task. After a block with tasks has been learned, every call must name
# them. Without this check a call that forgot `tasks` would silently predict for task 0.


def located(
    who: str, tasks: Any, n: int, graph: TaskGraph, tasked: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the task id and the cluster of each row; `tasked` says whether the model was trained with tasks."""
    if tasks is None:
        _reject_missing_task(who, "tasks", " for each row", graph, tasked)
        return np.full(n, ONE_TASK, dtype=np.int64), np.full(n, ONE_TASK, dtype=np.int64)
    try:
        task_ids, clusters = graph.locate(tasks)
    except InputError as error:
        raise _in_the_name_of(who, error) from None
    return task_ids, np.ascontiguousarray(clusters)


def located_one(who: str, task: Hashable, graph: TaskGraph, tasked: bool) -> tuple[int, int]:
    """Return the task id and the cluster of one task."""
    if task is not None:
        try:
            return graph.locate_one(task)
        except InputError as error:
            raise _in_the_name_of(who, error) from None
    _reject_missing_task(who, "task", "", graph, tasked)
    return ONE_TASK, ONE_TASK


def _reject_missing_task(who: str, parameter: str, each: str, graph: TaskGraph, tasked: bool) -> None:
    """Reject a missing task if the graph lists its tasks, or if the model was trained with tasks."""
    if graph.tasks is not None:
        raise input_error(who, parameter, f"a task of the graph{each}", "None")
    if tasked:
        accepted = f"given{each}, since the model was trained with tasks"
        raise input_error(who, parameter, accepted, "None", NAME_THE_TASKS if parameter == "tasks" else "Pass task=.")


def task_sequence(who: str, tasks: Any, n: int) -> Any:
    """Convert the tasks to an array, list or tuple of length n."""
    if not isinstance(tasks, np.ndarray | list):
        check_in_memory(who, "tasks", tasks)
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Iterable):
        raise input_type_error(who, "tasks", "one task for each row, in an array or list", shown(tasks))
    if hasattr(tasks, "to_numpy"):
        tasks = tasks.to_numpy()
    if not isinstance(tasks, (np.ndarray, list, tuple)):
        tasks = list(tasks)
    if isinstance(tasks, np.ndarray) and tasks.ndim != 1:
        raise input_error(who, "tasks", "one-dimensional", f"shape {tasks.shape}")
    if len(tasks) != n:
        raise input_error(who, "tasks", f"as long as X, {n} tasks", f"{len(tasks)}")
    return tasks


def _in_the_name_of(who: str, error: InputError) -> InputError:
    """Replace the graph's name at the start of an error message by the name of the learner, which the user called."""
    return type(error)(f"{who}: {str(error).partition(': ')[2]}")


def without_column(who: str, X: Any, column: Any) -> tuple[Any, Any]:
    """Split the task column off X. `column` is a position, or a column name if X is a data frame."""
    check_in_memory(who, "X", X)
    if is_frame(X):
        # A data frame may have integer column names; a name takes precedence over a position.
        if is_integer(column) and column not in X.columns and -len(X.columns) <= column < len(X.columns):
            column = X.columns[column]
        if column not in X.columns:
            raise input_error(who, "task_column", f"a column of X, {shown(list(X.columns))}", shown(column))
        rest = X.drop(columns=column) if hasattr(X, "loc") else X.drop(column)
        return rest, X[column].to_numpy()
    if not is_integer(column):
        raise input_type_error(
            who, "task_column", "a column's position, or its name if X is a data frame", shown(column)
        )
    if sparse.issparse(X):
        array: Any = as_format(who, X, "csc")
    else:
        array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    if array.ndim != 2 or not -array.shape[1] <= column < array.shape[1]:
        raise input_error(who, "task_column", "a column of X", f"{column} for X of shape {array.shape}")
    # `%` turns a negative position, such as −1 for the last column, into a positive one.
    keep = [j for j in range(array.shape[1]) if j != column % array.shape[1]]
    taken = array[:, [column % array.shape[1]]]
    return array[:, keep], (taken.toarray() if sparse.issparse(taken) else taken).ravel()
