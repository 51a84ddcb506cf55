"""Combinations of test parameters: `make test` runs some of them, `make test-long` all.

`make test` runs a combination if the positions of its values add up to a multiple of `one_in`. If a parameter has at
least `one_in` values, every combination of the other parameters is still tested.
"""

from __future__ import annotations

import itertools

import pytest


def covering(*dimensions, one_in=2):
    """Yield all combinations of several parameters; one in `one_in` is not marked `long`."""
    for positions in itertools.product(*(range(len(values)) for values in dimensions)):
        combination = [values[i] for values, i in zip(dimensions, positions, strict=True)]
        yield pytest.param(*combination, marks=[] if sum(positions) % one_in == 0 else [pytest.mark.long])
