"""Spans of requests arrive at a collector, with the parent that the client names."""

from __future__ import annotations

import http.server
import threading

import pytest
from running import running

pytest.importorskip("opentelemetry.sdk", reason="the extra 'traces' is not installed")


def test_spans_are_sent_to_a_collector(tmp_path):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                content = gzip.decompress(content)
            for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        with running(tmp_path, "Budgetron budget=10", "--traces", url) as service, service.client() as client:
            body = {"examples": [{"features": [1.0], "label": 0}, {"features": [2.0], "label": 1}]}
            parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
            assert client.post("/v1/learn", json=body, headers={"traceparent": parent}).status_code == 200
            assert client.get("/v1/unknown").status_code == 404
            assert service.stop() == 0  # the service sends all spans before it ends
        server.shutdown()
    by_name = {span.name: span for span in spans}
    learned = by_name["POST learn"]
    assert learned.trace_id.hex() == "ab" * 16 and learned.parent_span_id.hex() == "cd" * 8
    attributes = {
        attribute.key: attribute.value.int_value or attribute.value.string_value for attribute in learned.attributes
    }
    assert attributes["http.response.status_code"] == 200 and attributes["model"] == "default"
    assert attributes["http.route"] == "learn" and [event.name for event in learned.events] == ["body received"]
    assert learned.end_time_unix_nano > learned.start_time_unix_nano
    assert "GET unknown" in by_name
