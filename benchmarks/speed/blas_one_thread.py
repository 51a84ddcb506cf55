"""Limits BLAS to one thread, for learners and yardsticks alike.

It must be imported before NumPy, which reads these variables when it loads. Imports are sorted, so its name begins with
a letter that comes early.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
