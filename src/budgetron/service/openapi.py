"""The OpenAPI document, made from the routes and the classes of `wire`; and the same as a page to read, offline."""

from __future__ import annotations

import html
from functools import cache
from typing import Any

import msgspec

from budgetron.service import wire
from budgetron.service.routes import MODEL_ROUTES, OWN_ROUTES, Route

POLICY = [(b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'")]
_FORM = "#/components/schemas/{name}"
_COMMON = {
    400: "The body is not what it should be.", 401: "No key, or one that is not known.", 403: "The key's role may not.",
    404: "No such model.", 408: "The body came too slowly.", 413: "The body is too long.", 415: "Another Content-Type.",
    421: "A Host that is not this machine.", 422: "Refused by the model, in words.", 429: "More than the key's rate.",
    503: "Busy or stopping.",
}  # fmt: skip


@cache
def document(with_keys: bool) -> bytes:
    """The document, as JSON."""
    kinds = [kind for route in MODEL_ROUTES for kind in (route.request, *_answers(route)) if kind is not None]
    kinds = [*kinds, wire.ProblemAnswer, wire.ModelsAnswer, wire.Example, wire.LabelledExample]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_FORM)
    of = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in MODEL_ROUTES:
        for prefix in ("/v1/", "/v1/models/{model}/"):
            operation = _operation(route, prefix, of, with_keys)
            paths.setdefault(prefix + route.path, {})[route.method.lower()] = operation
    for path, (role, summary) in OWN_ROUTES.items():
        paths[path] = {"get": _own(path, role, summary, of, with_keys)}
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "Budgetron", "version": _version(), "description": _about()},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    return msgspec.json.encode(whole)


def _operation(route: Route, prefix: str, of: dict[str, Any], with_keys: bool) -> dict[str, Any]:
    named = "{model}" in prefix
    parameters = [_in_path("model")] if named else []
    if "{task}" in route.path:
        parameters.append(_in_path("task"))
    if route.path == "learn":
        key = {"type": "string", "minLength": 1, "maxLength": 150}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.path.split('/')[0]}{'_of_model' if named else ''}",
        "summary": route.summary,
        "description": f"Role: {route.role}.",
        "parameters": parameters,
        "responses": {"200": _good(route, of)} | _problems(_COMMON | route.answers, of),
    }
    content = {"application/json": {"schema": of[str(route.request)]}} if route.request is not None else {}
    if route.streams:
        line = wire.Example if route.path == "predict" else wire.LabelledExample
        content["application/x-ndjson"] = {"schema": of[str(line)]}
    if route.binary == "request":
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation | ({"security": [{"key": []}]} if with_keys else {})


def _good(route: Route, of: dict[str, Any]) -> dict[str, Any]:
    binary: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
    if route.binary == "answer":
        return {"description": "The file.", "content": {"application/octet-stream": binary}}
    if route.answer is None:
        return {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    schemas = [of[str(kind)] for kind in _answers(route)]
    content: dict[str, Any] = {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    if route.streams:
        content["application/x-ndjson"] = {"schema": {}}
    return {"description": "Done.", "content": content}


def _answers(route: Route) -> tuple[Any, ...]:
    return route.answer if isinstance(route.answer, tuple) else (route.answer,)


def _own(path: str, role: str | None, summary: str, of: dict[str, Any], with_keys: bool) -> dict[str, Any]:
    kind = {"/": "text/html", "/docs": "text/html", "/metrics": "text/plain"}.get(path, "application/json")
    schema = of[str(wire.ModelsAnswer)] if path == "/v1/models" else {}
    problems = _problems({s: _COMMON[s] for s in (401, 403, 421, 429)}, of) if role is not None else {}
    if path == "/readyz":
        problems["503"] = {"description": "Not ready.", "content": {"application/json": {"schema": {}}}}
    name = path.strip("/").split(".")[0].replace("/", "_") or "page"
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {kind: {"schema": schema}}}} | problems,
    }
    return operation | ({"security": [{"key": []}]} if with_keys and role is not None else {})


def _problems(answers: dict[int, str], of: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": of[str(wire.ProblemAnswer)]}}
    return {str(status): {"description": words, "content": content} for status, words in sorted(answers.items())}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _about() -> str:
    """What `wire` says of features, tasks and labels, without what it says to those who read the code."""
    return (wire.__doc__ or "").strip().partition("\n\n")[2]


def _version() -> str:
    from budgetron import __version__

    return __version__


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
    """The paths of the service as one plain page."""
    parts = []
    for route in MODEL_ROUTES:
        told = []
        if route.request is not None:
            told.append(_fields("Takes", route.request))
        told += [_fields("Gives", kind) for kind in _answers(route)]
        title = f"<code>{route.method} /v1/{route.path}</code>"
        parts.append(f'<section><h2>{title} <span class="role">for the role {route.role}</span></h2>'
                     f"<p>{html.escape(route.summary)}.</p>{''.join(told)}</section>")  # fmt: skip
    own = "".join(
        f"<dt><code>GET {path}</code></dt><dd>{html.escape(words)}</dd>" for path, (_, words) in OWN_ROUTES.items()
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Budgetron: paths</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>Budgetron: paths</h1>{_terms()}"
        "<p>The paths below are those of the model named <code>default</code>; of another they begin with "
        "<code>/v1/models/NAME/</code>. Keys go into the header <code>Authorization: Bearer KEY</code>. "
        'What is refused is answered with <code>{"error": {"kind": …, "message": …}}</code>.</p>'
        f"{''.join(parts)}<section><h2>The service itself</h2><dl>{own}</dl></section></main></body></html>"
    )
    return text.encode()


def _terms() -> str:
    """The words of requests, as a list of definitions."""
    terms: list[list[str]] = []
    for line in _about().splitlines():
        name, _, text = (line if line[:1].strip() else f"  {line}").partition("  ")
        if name:
            terms.append([name, text.strip()])
        else:
            terms[-1][1] += f" {text.strip()}"
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in terms) + "</dl>"


def _fields(word: str, kind: Any) -> str:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return ""
    names = ", ".join(f"<code>{field.encode_name}</code>" for field in msgspec.structs.fields(kind))
    return f"<p>{word} {names}. {_inline(kind.__doc__ or '')}</p>"


def _inline(text: str) -> str:
    """A docstring as HTML: backticks are code."""
    pieces = html.escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
