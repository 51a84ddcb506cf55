"""The yardsticks: the bare arithmetic in the machine's own libraries.

A Python loop would add a microsecond per call to the yardstick, which would make our ratios look better. So the loops
of `gemv_and_exp` are in C: `np.matmul` over a stack of vectors calls BLAS gemv once per vector, and the vector exp is
compiled here. The other yardsticks loop in Python, because one call of theirs takes much longer than a microsecond.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from measure import seconds
from scipy.linalg import blas

EXAMPLES = 400  # calls of gemv and exp per measurement


@lru_cache
def _exp_library() -> Any | None:
    """The vector exp, compiled here; None if it cannot be compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    flags = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "yardstick_exp.so"
        source = Path(__file__).with_name("yardstick_exp.c")
        done = subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lmvec", "-lm"], capture_output=True)
        return ctypes.CDLL(str(library)) if done.returncode == 0 else None


def exp_name() -> str:
    return "numpy" if _exp_library() is None else "libmvec"


def _exp(row: np.ndarray, out: np.ndarray, times: int) -> Callable[[], None]:
    library = _exp_library()
    if library is None:

        def with_numpy() -> None:
            for _ in range(times):
                np.exp(row, out=out)

        return with_numpy
    function = library.exp_f32 if row.dtype == np.float32 else library.exp_f64

    def with_library() -> None:
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (row, out))
        function(*pointers, ctypes.c_size_t(len(row)), ctypes.c_size_t(times))

    return with_library


def gemv_and_exp(budget: int, d: int, dtype: str) -> Callable[[], None]:
    """EXAMPLES times: inner products with B stored rows in the faster of two layouts, then exp of B numbers."""
    rng = np.random.default_rng(0)
    by_row = rng.standard_normal((budget, d)).astype(dtype)
    vectors = rng.standard_normal((EXAMPLES, d, 1)).astype(dtype)
    block = max(8, 8000 // budget)  # so few results that they stay in the cache
    products = np.empty((block, budget, 1), dtype=dtype)

    def multiply(layout: np.ndarray) -> None:
        for start in range(0, EXAMPLES, block):
            part = vectors[start : start + block]
            np.matmul(layout[None], part, out=products[: len(part)])

    layouts = (by_row, np.asfortranarray(by_row))
    best = min(layouts, key=lambda layout: min(seconds(lambda: multiply(layout)) for _ in range(5)))
    row = -np.abs(rng.standard_normal(budget)).astype(dtype)
    exponentials = _exp(row, np.empty_like(row), EXAMPLES)

    def work() -> None:
        multiply(best)
        exponentials()

    return work


def symmetric_pass(n: int, times: int) -> Callable[[], None]:
    """Compute y = S x and S += c x xᵀ `times` times, with BLAS dsymv and dsyr; S is symmetric, n × n, in doubles."""
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(np.eye(n))
    x = rng.standard_normal(n)

    def passes() -> None:
        for _ in range(times):
            blas.dsymv(1.0, matrix, x, lower=1)
            blas.dsyr(1e-9, x, a=matrix, overwrite_a=1, lower=1)

    return passes


def csr_products(stored: Any, rows: Any) -> Callable[[], None]:
    """Multiply every row with all stored rows: SciPy's CSR matrix times a dense vector."""
    vectors = [row.toarray().ravel() for row in rows]

    def products() -> None:
        for vector in vectors:
            stored @ vector

    return products
