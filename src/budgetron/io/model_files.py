"""Save and load a model together with the columns of the files it learned from. The command line uses this."""

from __future__ import annotations

import os
from typing import Any

from budgetron.errors import input_type_error, shown
from budgetron.io.encoding.columns import Columns
from budgetron.learners.lifecycle.files import load


def save_model(path: str | os.PathLike[str], model: Any, columns: Columns) -> None:
    """Save a model and its columns in one file. From then on, `model.save` also writes these columns.

    >>> import pathlib, tempfile
    >>> from io import BytesIO
    >>> from budgetron import Budgetron, io
    >>> with io.read(BytesIO(b"user,size,label\\nann,1,ham\\nbob,9,spam\\n")) as stream:
    ...     for block in stream:
    ...         model = Budgetron(budget=10).partial_fit(block.X, block.y, tasks=block.tasks)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save_model(pathlib.Path(folder) / "spam.budgetron", model, stream.columns)
    ...     again, columns = io.load_model(pathlib.Path(folder) / "spam.budgetron")
    >>> again.predict(columns.encode([{"size": 8}]), tasks=["bob"]).tolist()
    ['spam']
    """
    if not isinstance(columns, Columns):
        raise input_type_error("save_model", "columns", "the columns of a stream (stream.columns)", shown(columns))
    if not hasattr(model, "_columns"):
        raise input_type_error("save_model", "model", "a learner such as Budgetron", shown(model))
    before = model._columns
    model._columns = columns
    try:
        model.save(path)
    except BaseException:
        model._columns = before
        raise


def load_model(
    path: str | os.PathLike[str], max_bytes: int | str = "1 GiB", engine: str | None = None
) -> tuple[Any, Columns | None]:
    """Load a model and its columns from a file; the columns are None if the model was saved without columns."""
    model = load(path, max_bytes, engine)
    return model, columns_of(model)


def columns_of(model: Any) -> Columns | None:
    """Return the columns that a model was saved or loaded with; None if it has none.

    The model keeps the same object: if further rows update its scales, `model.save` writes the updated scales.
    """
    columns = getattr(model, "_columns", None)
    if columns is not None and not isinstance(columns, Columns):  # the `SavedColumns` that `load` read
        columns = model._columns = Columns.of(columns)
    return columns
