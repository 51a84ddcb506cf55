"""A disk that fills up under a running service: 507 and nothing learned; room again, and it goes on."""

from __future__ import annotations

import resource
import sys

import pytest
from running import running


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason=f"no prlimit on {sys.platform}")
def test_a_full_disk_is_507_and_passes(tmp_path):
    examples = [{"features": [i / 50, 1.0], "label": i % 2, "task": "ann"} for i in range(50)]
    with running(tmp_path, "RandomBudgetPerceptron budget=30") as service, service.client() as client:
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        pid, free = service.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
        refused = 0
        for _ in range(200):
            seen = client.get("/v1/model").json()["seen"]
            answer = client.post("/v1/learn", json={"examples": examples})
            if answer.status_code == 507:
                assert "with free space left" in answer.json()["error"]["message"]
                assert client.get("/v1/model").json()["seen"] == seen
                refused += 1
            else:
                assert answer.status_code == 200, answer.text
            if refused == 3:
                break
        assert refused == 3
        assert client.post("/v1/predict", json={"features": [0.1, 1.0], "task": "ann"}).status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, free)
        assert client.post("/v1/learn", json={"examples": examples}).json()["learned"] == 50
        assert client.get("/v1/model").json()["seen"] == seen + 50
