"""The OpenAPI document, made from `operations` and the classes of `wire` and `admin_wire`.

It is served at /openapi.json. `docs_page` makes an HTML page from the same sources, for people.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from budgetron.service.http import wire
from budgetron.service.http.operations import MODEL_OPERATIONS, PROBES, SERVICE_OPERATIONS, SERVICE_PATHS, Operation
from budgetron.version import __version__

_REFERENCE = "#/components/schemas/{name}"
_COMMON = {
    400: "The body is not of the documented form.", 401: "The API key is missing, unknown or expired.",
    403: "The API key lacks the role, or is for other models.", 404: "No such model.",
    408: "The body arrived too slowly.", 413: "The body is too long.", 415: "The Content-Type is not a listed one.",
    421: "The Host is not this machine.", 422: "The model rejects the input; the message says why.",
    429: "The API key or the client address exceeds its rate.", 503: "Busy, recovering or stopping.",
}  # fmt: skip


@cache
def document(with_keys: bool) -> bytes:
    """The document, as JSON. `with_keys`: whether the service requires API keys."""
    operations = [*MODEL_OPERATIONS, *SERVICE_OPERATIONS]
    types = [
        type_ for operation in operations for type_ in (operation.request, *answers_of(operation)) if type_ is not None
    ]
    types = [*types, wire.ProblemAnswer, wire.ModelsAnswer, wire.Example, wire.LabelledExample]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        for prefix in ("/v1/", "/v1/models/{model}/") if operation in MODEL_OPERATIONS else ("/v1/",):
            description = _describe(operation, prefix, schema_of, with_keys)
            paths.setdefault(prefix + operation.path, {})[operation.method.lower()] = description
    for path, (role, summary) in SERVICE_PATHS.items():
        paths[path] = {"get": _describe_service_path(path, role, summary, schema_of, with_keys)}
    content = {
        "openapi": "3.1.0",
        "info": {"title": "Budgetron", "version": __version__, "description": terms()},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    return msgspec.json.encode(content)


def answers_of(operation: Operation) -> tuple[Any, ...]:
    """The types of JSON that an operation may answer with; (None,) if it answers with something else."""
    return operation.answer if isinstance(operation.answer, tuple) else (operation.answer,)


def terms() -> str:
    """The definitions of features, task, label and offset: the docstring of `wire` without its first paragraph."""
    return (wire.__doc__ or "").strip().partition("\n\n")[2]


def _describe(operation: Operation, prefix: str, schema_of: dict[str, Any], with_keys: bool) -> dict[str, Any]:
    model_in_path = "{model}" in prefix  # otherwise the path belongs to the model named `default`
    parameters, suffix = ([_in_path("model")], "_of_model") if model_in_path else ([], "")
    parameters += [_in_path(name) for name in ("task", "version") if f"{{{name}}}" in operation.path]
    if operation.path == "learn":
        key = {"type": "string", "minLength": 1, "maxLength": 150}  # as `wire.Key`
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    described: dict[str, Any] = {
        "operationId": f"{operation.method.lower()}_{operation.path.split('/')[0]}{suffix}",
        "summary": operation.summary,
        "description": f"Role: {operation.role}.",
        "parameters": parameters,
        "responses": {"200": _success(operation, schema_of)} | _problems(_COMMON | operation.problems, schema_of),
    }
    content = {}
    if operation.request is not None:
        content["application/json"] = {"schema": schema_of[str(operation.request)]}
    if operation.stream_handler is not None:
        line = wire.Example if operation.path == "predict" else wire.LabelledExample
        content["application/x-ndjson"] = {"schema": schema_of[str(line)]}
    if operation.binary == "request":
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    if content:
        described["requestBody"] = {"required": True, "content": content}
    return described | ({"security": [{"key": []}]} if with_keys else {})


def _success(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    if operation.binary == "answer":
        binary = {"schema": {"type": "string", "format": "binary"}}
        return {"description": "The file.", "content": {"application/octet-stream": binary}}
    if operation.answer is None:
        return {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    schemas = [schema_of[str(type_)] for type_ in answers_of(operation)]
    content: dict[str, Any] = {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    if operation.stream_handler is not None:
        content["application/x-ndjson"] = {"schema": {}}
    return {"description": "Success.", "content": content}


def _describe_service_path(
    path: str, role: str | None, summary: str, schema_of: dict[str, Any], with_keys: bool
) -> dict[str, Any]:
    content_type = {"/": "text/html", "/docs": "text/html", "/metrics": "text/plain"}.get(path, "application/json")
    schema = schema_of[str(wire.ModelsAnswer)] if path == "/v1/models" else {}
    statuses = [] if path in PROBES else [429, 503]  # a client with too many requests or connections
    statuses += [] if role is None else [401, 403, 421]  # from `authorization`
    problems = _problems({status: _COMMON[status] for status in statuses}, schema_of)
    if path == "/readyz":
        problems["503"] = {"description": "Not ready.", "content": {"application/json": {"schema": {}}}}
    described: dict[str, Any] = {
        "operationId": path.strip("/").split(".")[0].replace("/", "_") or "page",
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {content_type: {"schema": schema}}}} | problems,
    }
    return described | ({"security": [{"key": []}]} if with_keys and role is not None else {})


def _problems(texts: dict[int, str], schema_of: dict[str, Any]) -> dict[str, Any]:
    """The error responses: `texts` says for each status when it is sent."""
    content = {"application/json": {"schema": schema_of[str(wire.ProblemAnswer)]}}
    return {str(status): {"description": text, "content": content} for status, text in sorted(texts.items())}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
