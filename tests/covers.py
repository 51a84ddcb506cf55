"""Products of parameters of which the usual run takes a part, and `make test-long` the rest.

A combination is usual if the positions of its values add up to a multiple of `one_in`. Such a part has every
combination of all parameters but one, if that one has at least `one_in` values: what it leaves out is repetition.
"""

from __future__ import annotations

import itertools

import pytest


def covering(*dimensions, one_in=2):
    """The product of several parameters, of which one in `one_in` combinations is not marked `long`."""
    for place in itertools.product(*(range(len(values)) for values in dimensions)):
        words = [values[i] for values, i in zip(dimensions, place, strict=True)]
        yield pytest.param(*words, marks=[] if sum(place) % one_in == 0 else [pytest.mark.long])
