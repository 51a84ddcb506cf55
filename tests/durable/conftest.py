"""Fixtures of the tests of durable models."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from copied_blocks import BLOCKS, MODEL
from host_streams import MODELS

from budgetron.durable import Host, Replicator, open_store


@pytest.fixture(params=MODELS)
def make_model(request):
    """A function that makes a new model. The test runs once for each entry of `MODELS`."""
    return MODELS[request.param]


@pytest.fixture
def url(request, tmp_path):
    """The URL of a new copy. A test with the mark `BOTH_STORES` runs with both kinds of stores.

    Other tests use a store in memory, which is fastest, or a directory if fsspec is not installed.
    """
    kind = getattr(request, "param", "")
    if kind == "directory" or (not kind and find_spec("fsspec") is None):
        yield str(tmp_path / "copy")
        return
    fsspec = pytest.importorskip("fsspec", reason="the extra 'replicate' is not installed")
    yield f"memory://copies/{tmp_path.name}"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def copied(tmp_path, url):
    """A host that was copied after every block, its replicator, and the model file after every record."""
    host = Host.open(tmp_path / "owner", MODEL, snapshot_every=20)
    replicator = Replicator(tmp_path / "owner", open_store(url))
    states = {}
    for n, block in enumerate(BLOCKS):
        learned = host.learn(*block, key=f"block {n}")
        states[learned.position] = host.content()
        replicator.copy()
    yield host, replicator, states
    host.close()
