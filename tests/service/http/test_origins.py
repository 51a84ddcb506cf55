"""Without API keys, web pages of other sites must not use the service through a browser on this machine."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/snapshot"), ("GET", "/v1/backup"), ("GET", "/v1/events")])
@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"},
                                     {"Origin": "http://localhost:1"}, {"Sec-Fetch-Site": "cross-site"},
                                     {"Sec-Fetch-Site": "same-site"}], ids=str)  # fmt: skip
def test_requests_of_other_sites_are_rejected(client, method, path, headers):
    with client.stream(method, path, headers=headers) as answer:
        assert answer.status_code == 403
        answer.read()
    assert answer.json()["error"]["kind"] == "origin"


def test_requests_of_the_services_own_page_and_of_programs_are_accepted(client):
    own = str(client.base_url).rstrip("/")
    assert client.post("/v1/snapshot", headers={"Origin": own, "Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.post("/v1/snapshot", headers={"Sec-Fetch-Site": "none"}).status_code == 200
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # a link to the live page
