"""`budgetron.load`: read a model file.

The format is in `budgetron.persist`; `saved` turns its records into learners. Nothing here may run code from a file.

>>> import budgetron, tempfile, pathlib
>>> model = budgetron.Budgetron(budget=50).partial_fit([[0.0, 1.0], [1.0, 0.0]], ["ham", "spam"], tasks=["ann", "bob"])
>>> with tempfile.TemporaryDirectory() as folder:
...     model.save(pathlib.Path(folder) / "spam.budgetron")
...     again = budgetron.load(pathlib.Path(folder) / "spam.budgetron")
>>> again.predict_one([0.9, 0.1], task="bob")
'spam'
"""

from __future__ import annotations

import logging
import os
from typing import Any

from budgetron.engine.memory import budget_of
from budgetron.errors import input_error, shown
from budgetron.learners.lifecycle.saved import model_of
from budgetron.persist import read_bytes, unpack
from budgetron.persist.schema import decode_record


def load(path: str | os.PathLike[str], max_bytes: int | str = "1 GiB", engine: str | None = None) -> Any:
    """Load a model that `save` wrote. With the same engine it continues exactly where it stopped, bit for bit.

    No code is run from the file, and everything in it is validated before use. A file that is damaged, too large, of
    another format or inconsistent raises `budgetron.errors.ModelFileError`.

    Parameters
    ----------
    path : str or path
    max_bytes : int or str, default="1 GiB"
        The largest file to read, and the most memory that its model may allocate.
    engine : {"auto", "core", "numpy"}, optional
        Replaces the engine that the model was saved with. Each engine reads the files of the other engine. The results
        of the two engines agree up to rounding.
    """
    limit = budget_of("load", max_bytes, "max_bytes")
    if limit == budget_of("load", None):  # a model's budget may be None, but a file must have a limit
        raise input_error("load", "max_bytes", 'a number of bytes or a size such as "1 GiB"', shown(max_bytes))
    if engine not in (None, "auto", "core", "numpy"):
        raise input_error("load", "engine", '"auto", "core", "numpy" or None', shown(engine))
    max_size = limit.bytes or limit.examples or 0  # an integer is parsed as a number of examples; here it means bytes
    # `read_bytes` checks the size first, `unpack` the checksum, `model_of` everything else.
    text, arrays = unpack(read_bytes(path, max_size))
    saved = decode_record(text)
    model = model_of(saved, arrays, max_size, engine)
    seen = model.n_seen_
    logging.getLogger("budgetron.learners").info("%s loaded from %s, %d examples seen", saved.learner, path, seen)
    return model
