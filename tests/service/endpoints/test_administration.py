"""Administration over HTTP: read the state, restore a model, forget a task, back up, and open the pages."""

from __future__ import annotations

import json
import re

from running import expect_error, model_file

import budgetron
from budgetron import kernels
from budgetron.durable import Host

# An attribute or a style sheet that loads from an address with a host. Other text, such as a licence, may name a host.
OTHER_HOST = re.compile(r"""(?:(?:src|srcset|href)\s*=|url\(|@import)\s*["']?\s*(?:https?:)?//""", re.IGNORECASE)


def test_the_model_its_tasks_and_its_metrics_can_be_read(trained_alone):
    model = trained_alone.get("/v1/model").json()
    assert model["learner"] == "RandomBudgetPerceptron" and model["classes"] == ["ham", "spam"]
    assert model["capacity"] == 30 and model["memory_bytes"] > 0 and sum(model["budget_share"].values()) > 0.9
    assert len(trained_alone.get("/v1/models/flag/model").json()["beliefs"]) > 1
    task = trained_alone.get("/v1/tasks/ann").json()
    assert task["stored"] >= 1 and task["figures"]["n"] >= 1
    expect_error(trained_alone.get("/v1/tasks/nobody"), 404, "unknown_task")
    live = trained_alone.get("/v1/live").json()
    assert live["overall"]["n"] == live["traffic"]["learned"] and live["mistakes"] and live["share"]
    assert trained_alone.get("/v1/models").json() == {"models": ["default", "flag"]}
    assert live["overall"]["auc"] is not None and live["k"] == 100 and live["rare"] is None
    assert live["tasks"][0].keys() >= {"auc", "average_precision", "brier"}
    text = trained_alone.get("/metrics").text
    assert 'budgetron_auc{model="default"}' in text and 'budgetron_brier{model="flag"}' in text
    assert f'budgetron_learned_total{{model="default"}} {live["traffic"]["learned"]}.0' in text
    assert 'budgetron_requests_total{method="GET",route="live",status="200"}' in text
    assert trained_alone.get("/healthz").json() == {"status": "alive"}
    assert trained_alone.get("/readyz").json()["status"] == "ready"


def test_events_repeat_the_live_state(trained):
    with trained.stream("GET", "/v1/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        events = []
        for line in lines:
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
            if len(events) == 2:
                break
    assert events[0]["model"] == "default" and events[1]["at"] >= events[0]["at"]
    assert events[1].keys() == trained.get("/v1/live").json().keys()


def test_a_model_can_be_restored_a_task_forgotten_and_a_backup_opened(tmp_path, trained):
    model = budgetron.RandomBudgetPerceptron(budget=30, kernel=kernels.Gaussian(gamma=0.5))
    model.partial_fit([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], ["x", "y"], tasks=["eve", "dan"])
    content = model_file(model, tmp_path / "other.budgetron")
    before = trained.get("/v1/snapshot").content
    assert trained.put("/v1/snapshot", content=content).status_code == 200
    assert trained.get("/v1/snapshot").content == content
    assert trained.post("/v1/predict", json={"features": [1, 0, 0], "task": "eve"}).json()["label"] == "x"
    expect_error(trained.put("/v1/snapshot", content=content[:-1] + b"?"), 422, "refused")
    assert trained.delete("/v1/tasks/eve").status_code == 200
    assert "eve" not in trained.get("/v1/model").json()["budget_share"]
    assert trained.post("/v1/snapshot").json()["position"] > 0
    assert trained.put("/v1/snapshot", content=before).status_code == 200
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "host.sqlite").write_bytes(trained.get("/v1/backup").content)
    with Host.open(tmp_path / "copy") as copy:
        assert copy.content() == before


def test_the_openapi_document_and_the_pages_load_nothing_from_other_hosts(client):
    document = client.get("/openapi.json").json()
    assert "/v1/models/{model}/predict" in document["paths"] and "/v1/predict" in document["paths"]
    for path in ("/docs", "/"):
        page = client.get(path)
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and not re.search(r"[*.]|https?:", policy), policy
        assert not OTHER_HOST.search(page.text), path
