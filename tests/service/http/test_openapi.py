"""The service follows its OpenAPI document: schemathesis sends requests that the document allows and checks answers."""

from __future__ import annotations

import pytest
from running import running

schemathesis = pytest.importorskip("schemathesis")


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_responses_follow_the_openapi_document(tmp_path, examples):
    from hypothesis import HealthCheck, Phase, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    with running(tmp_path, "Budgetron budget=10") as service, service.client() as client:
        client.post("/v1/learn", json={"examples": [{"features": [1.0, 2.0], "label": "a", "task": "x"},
                                                    {"features": [2.0, 1.0], "label": "b", "task": "x"}]})  # fmt: skip
        document = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        tried = 0
        for result in schema.get_all_operations():
            operation = result.ok()
            if "events" in operation.path or "{model}" in operation.path:
                continue  # the events never end, and /v1/models/{model}/… has the handlers of /v1/…

            @settings(max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
                      suppress_health_check=list(HealthCheck), derandomize=True)  # fmt: skip
            @_given(operation)
            def try_one(case):
                answer = case.call(base_url=service.url, timeout=300)  # the default is ten seconds
                if case.path == "/v1/limits" and case.method.upper() == "PUT":
                    # The generated request has set random limits, which would reject the next requests. Undo them.
                    unlimited = {"rate": 0, "address_rate": 0, "address_connections": 0}
                    assert client.put("/v1/limits", json=unlimited).status_code == 200
                case.validate_response(answer, checks=checks)

            try_one()
            tried += 1
        assert tried >= 15
        assert service.events("fault") == []


def _given(operation):
    from hypothesis import given

    return given(case=operation.as_strategy())
