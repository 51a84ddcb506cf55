"""Limits BLAS to one thread, for learners and yardsticks alike.

Import this module before NumPy, because BLAS reads these variables once, when NumPy loads it. Imports are sorted by
name, so the module must keep a name that comes before `numpy`.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
