"""The type stub of the compiled module matches the module, and both engines implement the interface of an engine."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import budgetron
from budgetron.engine import interface, native, reference

STUB = Path(budgetron.__file__).with_name("_core.pyi")


def signatures_of(text):
    """Return the signatures of every function, method and property of a stub, by its path."""
    signatures = {}

    def visit(nodes, path):
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                signatures[(*path, node.name)] = []
                visit(node.body, (*path, node.name))
            elif isinstance(node, ast.FunctionDef):
                signatures.setdefault((*path, node.name), []).append(ast.unparse(node))

    visit(ast.parse(text).body, ())
    return signatures


def differences(stub, generated):
    old, new = signatures_of(stub), signatures_of(generated)
    return sorted(".".join(name) for name in old.keys() | new.keys() if old.get(name) != new.get(name))


@pytest.fixture(scope="module")
def generated():
    if not native.available:
        pytest.skip("there is no compiled module here")
    stubgen = pytest.importorskip("nanobind.stubgen", reason="nanobind is not installed")
    from budgetron import _core

    generator = stubgen.StubGen(_core)
    generator.put(_core)
    return generator.get()


def test_the_stub_describes_the_module(generated):
    assert not differences(STUB.read_text(encoding="utf-8"), generated), "run `make stubs`"


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("def level() -> str", "def level() -> int", "level"),
        ("def n_seen(self) -> int", "def n_learned(self) -> int", "Learner.n_seen"),
        ("threads: int = 1", "threads: int = 2", "Learner.margins"),
    ],
)
def test_a_changed_module_is_noticed(generated, before, after, name):
    assert before in generated
    assert name in differences(STUB.read_text(encoding="utf-8"), generated.replace(before, after))


@pytest.mark.parametrize("engine", [native.Engine, reference.Engine], ids=["core", "numpy"])
def test_engines_have_the_parameters_of_the_interface(engine):
    """mypy checks the types of parameters; this test checks their names."""
    for name, member in vars(interface.Engine).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            parameters = inspect.signature(getattr(engine, name)).parameters
            assert list(parameters) == list(inspect.signature(member).parameters), name
