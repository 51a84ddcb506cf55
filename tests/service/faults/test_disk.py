"""While the disk of a running service is full, nothing is learned, and the answers report it.

When there is space again, the service continues to learn.
"""

from __future__ import annotations

import json
import resource
import sys

import pytest
from running import running


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason=f"no prlimit on {sys.platform}")
def test_a_full_disk_is_507_until_there_is_space(tmp_path):
    examples = [{"features": [i / 50, 1.0], "label": i % 2, "task": "ann"} for i in range(50)]
    with running(tmp_path, "RandomBudgetPerceptron budget=30") as service, service.client() as client:
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        pid, free = service.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        # The log reaches this size, 150 kB, after some of the requests below.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
        refused = 0
        for _ in range(200):
            seen = client.get("/v1/model").json()["seen"]
            answer = client.post("/v1/learn", json={"examples": examples})
            if answer.status_code == 507:
                assert "Free disk space" in answer.json()["error"]["message"]
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


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason=f"no prlimit on {sys.platform}")
def test_a_stream_reports_every_line_that_was_not_learned_because_of_a_full_disk(tmp_path):
    lines = [json.dumps({"features": [i / 50, 1.0], "label": i % 2, "task": "ann"}) for i in range(1024)]
    with running(tmp_path, "RandomBudgetPerceptron budget=30") as service, service.client() as client:
        kind = {"Content-Type": "application/x-ndjson"}
        assert '"done":true' in client.post("/v1/learn", content="\n".join(lines), headers=kind).text
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        answers = client.post("/v1/learn", content="\n".join(["{", *lines]), headers=kind).text.splitlines()
        last = json.loads(answers[-1])
        assert "done" not in last and last["error"]["kind"] == "disk"
        # `lines` counts the lines that were read before the stream ended. They are more than a block, which has 512
        # lines. Line 1 is reported as invalid, and no other line is acknowledged.
        assert json.loads(answers[0])["line"] == 1 and last["lines"] > 512
        assert (last["refused"], last["acknowledged"], last["unacknowledged_from"]) == (1, 0, 2)
        assert client.get("/v1/model").json()["seen"] == 1024
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
