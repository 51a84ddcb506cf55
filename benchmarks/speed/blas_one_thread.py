"""Limits BLAS to one thread, for learners and yardsticks alike.

It must be imported before NumPy. Its name comes first among the imports, which are sorted.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
