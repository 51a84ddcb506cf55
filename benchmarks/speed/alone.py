"""Limits BLAS to one thread, for learners and yardsticks alike. Must be imported before NumPy."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
