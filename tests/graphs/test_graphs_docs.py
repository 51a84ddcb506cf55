"""The examples in docs/graphs.md and in the modules print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from budgetron import graphs

MODULES = [
    "budgetron.graphs",
    *(f"budgetron.graphs.{found.name}" for found in pkgutil.iter_modules(graphs.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_function_has_an_example_that_prints():
    for name in graphs.__all__:
        thing = getattr(graphs, name)
        if callable(thing) and not isinstance(thing, type):
            examples = doctest.DocTestParser().get_examples(thing.__doc__)
            assert any(example.want for example in examples), name


def test_page():
    page = Path(__file__).parents[2] / "docs" / "graphs.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.failed == 0 and results.attempted >= 15
