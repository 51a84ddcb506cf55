"""Reasons of a prediction over HTTP."""

from __future__ import annotations

import pytest
from running import expect_error, running


def test_reasons_add_up_to_the_margin(trained):
    example = {"features": [1, 2], "task": "ann", "explain": True}
    for path in ("/v1/predict", "/v1/models/flag/predict"):
        answer = trained.post(path, json=example).json()
        explanation = answer["reasons"]
        total = sum(term["total"] for term in explanation["terms"]) + explanation["rest"] + explanation["remainder"]
        assert explanation["label"] == "spam" and total == pytest.approx(explanation["margin"], abs=1e-9)
        assert explanation["margin"] == pytest.approx(answer["margin"], abs=1e-9)
        assert "reasons" not in trained.post(path, json={**example, "explain": False}).json()
        many = trained.post(path, json={"examples": [{"features": [1, 2], "task": "ann"}] * 3, "explain": True}).json()
        assert [answer["reasons"] for answer in many["predictions"]] == [explanation] * 3
    assert trained.post("/v1/predict", json=example).json()["reasons"]["nearest"]


def test_invalid_requests_for_reasons_are_refused(trained):
    for example, status in (
        ({"features": [1, 2, 3], "task": "ann"}, 422), ({"features": [1, 2]}, 422), ({"features": {}}, 422),
        ({"features": [1e308, -1e308], "task": "ann"}, 422), ({"features": [1, 2], "task": "x" * 100_000}, 422),
        ({"features": [1, 2], "task": "never seen"}, 200),
    ):  # fmt: skip
        answer = trained.post("/v1/predict", json={**example, "explain": True})
        assert answer.status_code == status, answer.text
    for wrong in ("yes", 1, {}, None):
        answer = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "explain": wrong})
        expect_error(answer, 400, "malformed")


def test_reasons_name_hashed_features(tmp_path):
    names = ["<script>", "größe", "a" * 200, ""]
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        assert client.post("/v1/predict", json={"features": {"a": 1}, "explain": True}).status_code == 409
        examples = [{"features": dict.fromkeys(names[:n], n), "label": n % 2} for n in range(1, 5)] * 5
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        answer = client.post("/v1/predict", json={"features": dict.fromkeys(names, 2.0), "explain": True}).json()
        found = {term["name"] for term in answer["reasons"]["terms"]}
        assert {name for name in found if not name.startswith("random features")} == {*names, "constant"}
