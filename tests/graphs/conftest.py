"""One BLAS thread: the matrices here are small, and on a busy machine threads only wait for each other."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    with threadpool_limits(1):
        yield
