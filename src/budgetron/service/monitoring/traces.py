"""Traces for OpenTelemetry, with the extra `traces`: one span per request, sent to a collector by OTLP over HTTP.

A span is created after its request has ended, so that tracing does not delay the response. Its parent is the span that
the client names in the header `traceparent`. Attributes follow the semantic conventions for HTTP servers; `model` and
`key` (the name of the API key) are added.
"""

from __future__ import annotations

import time
from typing import Any

from budgetron.errors import import_extra
from budgetron.version import __version__

_PARENT = b"traceparent"


class Traces:
    """Sends spans in the background. If the collector does not answer, only spans are lost."""

    def __init__(self, url: str) -> None:
        sdk = import_extra("serve --traces", "opentelemetry.sdk.trace", "traces")
        export = import_extra("serve --traces", "opentelemetry.sdk.trace.export", "traces")
        otlp = import_extra("serve --traces", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "traces")
        resources = import_extra("serve --traces", "opentelemetry.sdk.resources", "traces")
        w3c = import_extra("serve --traces", "opentelemetry.trace.propagation.tracecontext", "traces")
        self._api = import_extra("serve --traces", "opentelemetry.trace", "traces")
        resource = resources.Resource.create({"service.name": "budgetron", "service.version": __version__})
        self._provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint=url, timeout=5)))
        self._tracer = self._provider.get_tracer("budgetron")
        self._parents = w3c.TraceContextTextMapPropagator()

    def note(self, scope: Any, route: str, status: int, seconds: float, received: float | None, **more: Any) -> None:
        """Create the span of a request that has just ended. `received`: when its body was complete (perf_counter)."""
        ended = time.time_ns()
        header = next((value for name, value in scope["headers"] if name == _PARENT), None)
        parent = None if header is None else self._parents.extract({"traceparent": header.decode("latin-1")})
        method = scope["method"]
        attributes = {
            "http.request.method": method, "http.route": route, "http.response.status_code": status,
            "url.path": scope["path"][:200], **{name: value for name, value in more.items() if value is not None},
        }  # fmt: skip
        span = self._tracer.start_span(
            f"{method} {route}", context=parent, kind=self._api.SpanKind.SERVER, attributes=attributes,
            start_time=ended - int(1e9 * seconds),
        )  # fmt: skip
        if received is not None:
            span.add_event("body received", timestamp=ended - int(1e9 * (time.perf_counter() - received)))
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)
        span.end(end_time=ended)

    def close(self) -> None:
        """Send the remaining spans, within a few seconds."""
        self._provider.shutdown()
