"""The reference, written from the docstrings of whatever is public: a page a room, in the order of a reader's need.

Docstrings are prose in Markdown, `>>>` examples, and numpydoc's sections (Parameters, Attributes, …).
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import budgetron

ROOMS = {  # page → title, and the modules it tells of; rooms that are not named here come after them
    "learners": ("Learners", ["budgetron.learners"]),
    "kernels": ("Kernels", ["budgetron.kernels"]),
    "graphs": ("Task graphs", ["budgetron.graphs"]),
    "evaluate": ("Validation", ["budgetron.evaluate"]),
    "report": ("Reports", ["budgetron.report"]),
    "io": ("Files and streams", ["budgetron.io"]),
    "data": ("Data sets", ["budgetron.data", "budgetron.data.synthetic"]),
    "records": ("Records and errors", ["budgetron.engine.records", "budgetron.errors"]),
    "theory": ("Guarantees", ["budgetron.theory"]),
    "checks": ("Checks", ["budgetron.checks"]),
    "compat": ("river", ["budgetron.compat.river"]),
}
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)


def rooms() -> dict[str, tuple[str, list[str]]]:
    """Every page: those of ROOMS, and one for each further room that a name of `budgetron.__all__` lives in."""
    found = dict(ROOMS)
    for name in budgetron.__all__:
        thing = getattr(budgetron, name)
        room = (thing.__name__ if inspect.ismodule(thing) else thing.__module__).split(".")[1]
        found.setdefault(room, (room.capitalize(), [f"budgetron.{room}"]))
    return found


def pages() -> list[str]:
    """Where the pages go."""
    return [f"reference/{name}.md" for name in rooms()]


def written() -> dict[str, str]:
    """Each page of the reference: where it goes, and its text."""
    return {f"reference/{name}.md": _page(title, modules) for name, (title, modules) in rooms().items()}


def public(module: ModuleType) -> list[str]:
    """The names a module gives: its __all__, or the classes and functions it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    ]


def _page(title: str, modules: list[str]) -> str:
    parts = [f"# {title}\n"]
    for name in modules:
        module = importlib.import_module(name)
        parts.append(_text(inspect.getdoc(module) or ""))
        if name == "budgetron.learners":
            parts += _learners(module)
            continue
        shown = [(each, getattr(module, each)) for each in public(module)]
        for each, thing in shown:
            if inspect.isclass(thing):
                parts += _class(name, each, thing)
            elif callable(thing):
                parts += _function(f"{name}.{each}", thing, "##")
    return "\n\n".join(part for part in parts if part) + "\n"


def _learners(module: ModuleType) -> Iterator[str]:
    """Every learner's own page of docstring; what they all do is said once, below."""
    from budgetron.learners.learner import Learner

    shared = dict(_members(Learner))
    for name in sorted(public(module), key=lambda name: (name != "Budgetron", name)):
        yield from _class("budgetron", name, getattr(module, name), without=shared)
    yield "## What every learner does\n"
    for name, member in shared.items():
        yield from _function(name, member, "###")
    yield from _function("budgetron.load", budgetron.load, "##")


def _class(module: str, name: str, thing: type, without: dict[str, Any] | None = None) -> Iterator[str]:
    yield f"## {module}.{name}\n"
    if not issubclass(thing, Exception):
        yield _signature(name, thing)
    yield _text(inspect.getdoc(thing) or "")
    for member_name, member in _members(thing):
        if getattr(member, "__doc__", None) and (without or {}).get(member_name) is not member:
            yield from _function(f"{name}.{member_name}", member, "###")


def _function(name: str, thing: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n"
    if isinstance(thing, property):
        thing = thing.fget
    else:
        yield _signature(name.rsplit(".", 1)[-1], thing)
    yield _text(inspect.getdoc(thing) or "")


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are ours, in the order they are written, the base's first."""
    seen = {}
    for owner in reversed(thing.__mro__):
        if owner.__module__.startswith("budgetron"):
            for name, member in vars(owner).items():
                inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
                    seen[name] = inner
    yield from seen.items()


def _signature(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    text = f"{name}{signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)}"
    if len(text) > 90:
        text = f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in map(str, kept)) + ")"
    return f"```python\n{text}\n```"


def _text(docstring: str) -> str:
    """A docstring as Markdown."""
    pieces = SECTION.split(docstring)
    parts = [_with_examples(pieces[0])]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        described = title in ("Parameters", "Attributes", "Returns", "Raises")
        parts.append(f"**{title}**\n\n" + (_described(body) if described else _with_examples(body)))
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _described(body: str) -> str:
    """`name : kind`, and its description indented below; or all on one line."""
    entries: list[tuple[str, list[str]]] = []
    for line in body.strip().splitlines():
        if line.startswith(" ") and entries:
            entries[-1][1].append(line.strip())
        elif line.strip():
            entries.append((line.strip(), []))
    parts = []
    for head, lines in entries:
        name, _, kind = head.partition(" : ")
        short = f"`{name}`"
        if lines:
            parts.append(f"{short}{' : *' + kind.replace('*', '') + '*' if kind else ''}\n:   {' '.join(lines)}")
        else:
            parts.append(f"{short}\n:   {kind or '–'}")
    return "\n\n".join(parts)


def _with_examples(text: str) -> str:
    """Prose, with each run of `>>>` lines and what they print as a block of code."""
    parts, code = [], False
    for line in text.splitlines():
        begins = line.startswith(">>> ")
        if begins and not code:
            parts.append("\n```pycon")
            code = True
        elif code and not line.strip():
            parts.append("```\n")
            code = False
        parts.append(line)
    return "\n".join([*parts, "```"] if code else parts)
