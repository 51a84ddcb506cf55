"""Generate the API reference from the docstrings of public names, one page per module. `hooks` calls this.

Docstrings are Markdown with `>>>` examples and numpydoc sections (Parameters, Attributes, …).
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import budgetron

PAGES = {  # page → title and modules, in reading order; `all_pages` appends the other modules
    "learners": ("Learners", ["budgetron.learners", "budgetron.learners.scorer"]),
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


def all_pages() -> dict[str, tuple[str, list[str]]]:
    """PAGES, and one more page per further module that defines a name of `budgetron.__all__`."""
    every_page = dict(PAGES)
    for name in budgetron.__all__:
        value = getattr(budgetron, name)
        module = (value.__name__ if inspect.ismodule(value) else value.__module__).split(".")[1]
        every_page.setdefault(module, (module.capitalize(), [f"budgetron.{module}"]))
    return every_page


def pages() -> list[str]:
    """The paths of the pages."""
    return [f"reference/{name}.md" for name in all_pages()]


def page_texts() -> dict[str, str]:
    """The path and the text of each page."""
    return {f"reference/{name}.md": _page(title, modules) for name, (title, modules) in all_pages().items()}


def public(module: ModuleType) -> list[str]:
    """The public names of a module: its __all__, or the classes and functions that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _page(title: str, modules: list[str]) -> str:
    parts = [f"# {title}\n"]
    for name in modules:
        module = importlib.import_module(name)
        if name == "budgetron.learners":
            parts += _learners(module)
            continue
        parts.append(_text(inspect.getdoc(module) or ""))
        for member_name in public(module):
            value = getattr(module, member_name)
            if inspect.isclass(value):
                parts += _class(name, member_name, value)
            elif callable(value):
                parts += _function(f"{name}.{member_name}", value, "##")
    return "\n\n".join(part for part in parts if part) + "\n"


def _learners(module: ModuleType) -> Iterator[str]:
    """The docstring of every learner, then the methods that all learners share, once."""
    from budgetron.learners.learner import Learner

    # The docstring of the module describes its files, which users do not need.
    yield (
        "The learners are scikit-learn estimators. Start with `Budgetron`. The methods that all learners have are "
        "listed once, [after the learners](#methods-of-all-learners).\n"
    )
    shared = dict(_members(Learner))
    for name in sorted(public(module), key=lambda name: (name != "Budgetron", name not in budgetron.__all__, name)):
        package = "budgetron" if name in budgetron.__all__ else module.__name__
        yield from _class(package, name, getattr(module, name), without=shared)
    yield "## Methods of all learners\n"
    for name, member in shared.items():
        yield from _function(name, member, "###")
    yield from _function("budgetron.load", budgetron.load, "##")


def _class(module: str, name: str, value: type, without: dict[str, Any] | None = None) -> Iterator[str]:
    yield f"## {module}.{name}\n"
    if not issubclass(value, Exception):
        yield _signature(name, value)
    yield _text(inspect.getdoc(value) or "")
    for member_name, member in _members(value):
        if getattr(member, "__doc__", None) and (without or {}).get(member_name) is not member:
            yield from _function(f"{name}.{member_name}", member, "###")


def _function(name: str, value: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n"
    if isinstance(value, property):
        value = value.fget
    else:
        yield _signature(name.rsplit(".", 1)[-1], value)
    yield _text(inspect.getdoc(value) or "")


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties defined in budgetron, base classes first, in source order."""
    seen = {}
    for owner in reversed(value.__mro__):
        if owner.__module__.startswith("budgetron"):
            for name, member in vars(owner).items():
                inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
                    seen[name] = inner
    yield from seen.items()


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"
    if len(text) > 90:
        text = f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in map(str, parameters)) + ")"
    return f"```python\n{text}\n```"


def _text(docstring: str) -> str:
    """Convert a docstring to Markdown."""
    pieces = SECTION.split(docstring)
    parts = [_with_examples(pieces[0])]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        described = title in ("Parameters", "Attributes", "Returns", "Raises")
        parts.append(f"**{title}**\n\n" + (_described(body) if described else _with_examples(body)))
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _described(body: str) -> str:
    """Convert entries `name : type` with an indented description, or on one line, to a definition list."""
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
    """Put every run of `>>>` lines and their output into a code block."""
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
