"""The audit log: who did which administrative action, from which address, and with which outcome.

The line of an action is on disk before the action begins.
"""

from __future__ import annotations

import os

import event_loops
import pytest
from running import running

from budgetron.durable import DamagedLog, DiskRefused
from budgetron.service import audit
from budgetron.service.audit import AuditLog
from budgetron.service.http import api_keys

SPAM = {"examples": [{"features": [1.0, 2.0], "label": "spam", "task": "ann"},
                     {"features": [2.0, 1.0], "label": "ham", "task": "bob"},
                     {"features": [1.0, 3.0], "label": "spam", "task": "ann"}]}  # fmt: skip


def test_administrative_actions_are_recorded(tmp_path):
    keys = tmp_path / "keys"
    tokens = {role: api_keys.add(keys, f"the-{role}", role) for role in api_keys.ROLES}
    tokens["one model"] = api_keys.add(keys, "of-spam", "admin", models=("spam",))
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    data = tmp_path / "data"
    with running(data, "spam=Budgetron budget=10", "--keys", keys) as service, service.client() as client:
        path = "/v1/models/spam"
        assert client.post(f"{path}/learn", json=SPAM, headers=headers["learn"]).status_code == 200
        asked = {"features": [1.0, 1.0], "task": "ann", "remember": True}
        prediction_id = client.post(f"{path}/predict", json=asked, headers=headers["learn"]).json()["id"]
        client.post(f"{path}/feedback", json={"id": prediction_id, "label": "ham"}, headers=headers["learn"])
        model = client.get(f"{path}/snapshot", headers=headers["one model"]).content
        wrong = {"position": 1, "row": 0, "label": "spam"}
        assert client.post(f"{path}/corrections", json=wrong, headers=headers["admin"]).status_code == 422
        right = {"position": 1, "row": 0, "label": "ham", "reason": "é"}
        assert client.post(f"{path}/corrections", json=right, headers=headers["admin"]).status_code == 200
        changed = {"id": prediction_id, "label": "spam", "correct": True}
        assert client.post(f"{path}/feedback", json=changed, headers=headers["learn"]).status_code == 200
        assert client.delete(f"{path}/tasks/bob", headers=headers["admin"]).status_code == 200
        assert client.put(f"{path}/snapshot", content=model, headers=headers["admin"]).status_code == 200
        assert client.put(f"{path}/snapshot", content=b"no", headers=headers["admin"]).status_code == 422
        # The key of this request lacks the role, so the request is not recorded.
        assert client.delete(f"{path}/tasks/bob", headers=headers["learn"]).status_code == 403
        # An administrator of one model may not read the audit log, because it has lines about other models.
        assert client.get("/v1/audit", headers=headers["one model"]).status_code == 403
        before = client.get("/v1/audit", headers=headers["admin"]).json()["actions"]
        service.kill()
    actions = [(line["who"], line["action"], line["outcome"]) for line in reversed(before)]
    assert actions == [
        ("of-spam", "GET snapshot", "done"),
        ("the-admin", "POST corrections", "refused"),
        ("the-admin", "POST corrections", "done"),
        ("the-learn", "POST feedback", "done"),
        ("the-admin", "DELETE tasks/{task}", "done"),
        ("the-admin", "PUT snapshot", "done"),
        ("the-admin", "PUT snapshot", "refused"),
    ]
    assert all(line["model"] == "spam" and line["address"] == "127.0.0.1" for line in before)
    by_action = {(line["action"], line["outcome"]): line["details"] for line in before}
    assert by_action["POST corrections", "done"] == {
        "correction": 1, "position": 1, "row": 0, "withdrawn": False, "replayed": 4,
        "seconds": by_action["POST corrections", "done"]["seconds"],
    }  # fmt: skip
    assert by_action["PUT snapshot", "done"]["bytes"] == len(model)
    # A task may be a person, so the audit log must not contain the name of a forgotten task.
    assert "bob" not in repr(before)
    log = AuditLog(data)  # it is complete, although the service was killed
    assert [line.number for line in log.lines()] == [line["number"] for line in before]
    log.close()
    assert os.stat(data / audit.NAME).st_mode & 0o077 == 0


def test_an_interrupted_action_has_no_outcome_and_old_lines_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "MAX_LINES", 3)
    log = AuditLog(tmp_path / "new")
    assert log.lines() == [] and not (tmp_path / "new").exists()  # reading creates no file
    for i in range(5):
        number = log.begin("ann", "::1", f"action {i}", None)
    log.end(number, "done", {"n": 1})
    log.close()
    later = AuditLog(tmp_path / "new")
    assert [(line.number, line.outcome) for line in later.lines()] == [(5, "done"), (4, None), (3, None)]
    assert later.begin("ann", "::1", "one more", "m") == 6
    later.close()


def test_an_action_that_must_be_recorded_but_cannot_be_is_not_done(tmp_path):
    log = AuditLog(tmp_path / "file")
    (tmp_path / "file").write_text("no directory")
    done = []

    async def act(required):
        async with log.record_action("ann", "::1", "PUT limits", None, {}, required=required):
            done.append(required)

    with pytest.raises(DiskRefused):
        event_loops.run(act(True))
    event_loops.run(act(False))  # an action that need not be recorded, such as a download, is done
    assert done == [False]


def test_a_damaged_file_is_named_and_the_service_starts_a_new_one_without_it(tmp_path):
    (tmp_path / audit.NAME).write_bytes(b"rubbish" * 1000)
    log = AuditLog(tmp_path)
    with pytest.raises(DamagedLog, match=r"the audit log is damaged: .* move the file away") as damaged:
        log.begin("ann", "::1", "PUT limits", None)
    assert "budgetron repair" not in str(damaged.value)  # it handles models only
    (tmp_path / audit.NAME).rename(tmp_path / "damaged.sqlite")
    later = AuditLog(tmp_path)
    assert later.begin("ann", "::1", "PUT limits", None) == 1
    later.close()
