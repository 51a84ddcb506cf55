"""For tests of copies: the model and the blocks of the host that is copied, the kinds of stores, and a restore."""

from __future__ import annotations

import pytest
from host_streams import MODELS, blocks

from budgetron.durable import Host, restore

MODEL = MODELS["random"]
BLOCKS = blocks(n=72, size=6)
BOTH_STORES = pytest.mark.parametrize("url", ["directory", "fsspec"], indirect=True)  # see the fixture `url`


def restored(url, folder, **point):
    """The model file after a restore of the copy into a new folder."""
    restore(url, folder, **point)
    with Host.open(folder) as host:
        return host.content()
