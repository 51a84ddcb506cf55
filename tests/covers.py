"""Combinations of test parameters: `make test` runs some of them, `make test-long` all.

`make test` runs a combination if the positions of its values in their lists add up to a multiple of `one_in`. If some
parameter has at least `one_in` values, `make test` still runs every combination of the other parameters.
"""

from __future__ import annotations

import itertools

import pytest


def covering(*dimensions, one_in=2):
    """Yield all combinations of several parameters. About one in `one_in` is not marked `long`."""
    for positions in itertools.product(*(range(len(values)) for values in dimensions)):
        combination = [values[i] for values, i in zip(dimensions, positions, strict=True)]
        yield pytest.param(*combination, marks=[] if sum(positions) % one_in == 0 else [pytest.mark.long])
