"""The page at /docs: every path of the service with its fields, in plain HTML that works offline."""

from __future__ import annotations

import html
from functools import cache
from typing import Any

import msgspec

from budgetron.service.http.openapi import answers_of, terms
from budgetron.service.http.operations import MODEL_OPERATIONS, SERVICE_OPERATIONS, SERVICE_PATHS, Operation

POLICY = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h2 { font-size: 1rem; margin: 2rem 0 .25rem; padding-top: 1rem;
     border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
code { font-family: ui-monospace, monospace; font-size: .9em; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.5rem; } .role { opacity: .75; }
"""


@cache
def page() -> bytes:
    """The page, as UTF-8."""
    own = "".join(
        f"<dt><code>GET {path}</code></dt><dd>{html.escape(summary)}.</dd>"
        for path, (_, summary) in SERVICE_PATHS.items()
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Budgetron: paths</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>Budgetron: paths</h1>{_definitions()}"
        "<p>The paths below belong to the model named <code>default</code>. The paths of another model begin with "
        "<code>/v1/models/NAME/</code>. Send an API key in the header <code>Authorization: Bearer KEY</code>. "
        'A rejected request is answered with <code>{"error": {"kind": …, "message": …}}</code>.</p>'
        f"{''.join(map(_section, MODEL_OPERATIONS))}"
        f"<section><h2>The service itself</h2><dl>{own}</dl></section>"
        f"{''.join(map(_section, SERVICE_OPERATIONS))}</main></body></html>"
    )
    return text.encode()


def _section(operation: Operation) -> str:
    fields = [] if operation.request is None else [_fields("Request", operation.request)]
    fields += [_fields("Response", kind) for kind in answers_of(operation)]
    title = f"<code>{operation.method} /v1/{operation.path}</code>"
    return (
        f'<section><h2>{title} <span class="role">for the role {operation.role}</span></h2>'
        f"<p>{html.escape(operation.summary)}.</p>{''.join(fields)}</section>"
    )


def _definitions() -> str:
    """The terms of requests, as a list of definitions. A line that begins with a space continues the last one."""
    definitions: list[list[str]] = []
    for line in terms().splitlines():
        name, _, text = (line if line[:1].strip() else f"  {line}").partition("  ")
        if name:
            definitions.append([name, text.strip()])
        else:
            definitions[-1][1] += f" {text.strip()}"
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in definitions) + "</dl>"


def _fields(title: str, kind: Any) -> str:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return ""
    names = ", ".join(f"<code>{field.encode_name}</code>" for field in msgspec.structs.fields(kind))
    return f"<p>{title}: {names}. {_inline(kind.__doc__ or '')}</p>"


def _inline(text: str) -> str:
    """A docstring as HTML: text in backticks is code."""
    pieces = html.escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
