"""Examples as a text file for Vowpal Wabbit, which the measurements of accuracy and of speed compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


def write_vowpal(path: Path, X: Any, y: Any, tasks: Any = None) -> None:
    """Write the features in namespace f and the task in namespace t. True labels become 1, false ones -1."""
    X = sparse.csr_matrix(X)
    tasks = np.zeros(len(y), dtype=int) if tasks is None else tasks
    with path.open("w") as file:
        for i, (label, task) in enumerate(zip(y.tolist(), tasks.tolist(), strict=True)):
            part = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
            words = " ".join(f"{column}:{value:.5g}" for column, value in pairs)
            file.write(f"{1 if label else -1} |t {task} |f {words}\n")
