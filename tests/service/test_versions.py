"""Versions of a served model: rollback by one call, a candidate on the same traffic, canary, promotion, restarts."""

from __future__ import annotations

import numpy as np
import pytest
from running import running, until

from budgetron import BudgetProjectron, Client
from budgetron.durable import DamagedLog
from budgetron.durable.versions import Versions
from budgetron.errors import InputError
from budgetron.kernels import Gaussian

TASKS = [f"user {n}" for n in range(40)]


def batch(n=100, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    y = np.where(X[:, 0] * X[:, 1] > 0, "spam", "ham")
    return X, y.tolist(), rng.choice(TASKS, n).tolist()


def margins(client, n=40):
    X, _, _ = batch(n, seed=99)
    return [answer.margin for answer in client.predict_many(X, TASKS)]


def comparison_after(client, n):
    """The comparison of the candidate with the model in use, or None before the candidate has learned n labels."""
    versions = client.versions()["candidate"]
    return versions if (versions["candidate"]["overall"] or {}).get("n") == n else None


@pytest.fixture
def curved_model(tmp_path):
    """The file of a model that is better on these labels than the linear model that is served."""
    X, y, tasks = batch(400, seed=7)
    path = tmp_path / "curved.budgetron"
    BudgetProjectron(budget=200, kernel=Gaussian(0.5)).fit(X, y, tasks=tasks).save(path)
    return path


def test_rollback_shadow_canary_and_promotion_of_a_served_model(tmp_path, curved_model, browser):
    data = tmp_path / "data"
    arguments = ("Perceptron kernel=linear", "--snapshot-every", 150)
    with running(data, *arguments) as service, Client(service.url) as client:
        client.learn_many(*batch(100))
        client.save_version("v1")
        before = margins(client)
        with pytest.raises(InputError, match="nothing to go back to"):
            client.rollback()

        # Activate v1, and return to the later model by one call.
        client.learn_many(*batch(100, seed=1))
        after = margins(client)
        assert after != before
        client.activate("v1")
        assert margins(client) == before
        client.rollback()
        assert margins(client) == after

        # A shadow (a candidate for no task) learns the same labels, answers nothing, and is compared.
        client.save_version("v2", curved_model)
        shown = client.begin_candidate("v2")
        assert shown["share"] == 0.0 and margins(client) == after
        client.learn_many(*batch(600, seed=2), batch=50)
        versions = until(lambda: comparison_after(client, 600))
        assert versions["current"]["overall"]["n"] == 600
        assert versions["candidate"]["overall"]["error"] < versions["current"]["overall"]["error"]
        positions = [[point["position"] for point in versions[which]["curve"]] for which in ("candidate", "current")]
        assert positions[0] == positions[1]
        assert len(versions["candidate"]["curve"]) >= 2 and versions["refused"] == versions["skipped"] == 0

        page = browser.new_page()
        page.goto(service.url)
        page.wait_for_selector("#candidate:not([hidden])")
        for chart in ("candidate-error", "candidate-auc"):
            drawn = page.locator(f"[data-chart={chart}]")
            assert int(drawn.get_attribute("data-drawn")) >= 2
        assert page.locator("#candidate-rows th").all_inner_texts() == ["in use", "v2"]
        page.screenshot(path=tmp_path / "candidate.png", full_page=True)
        page.close()

        # A canary (a candidate for a share of the tasks) answers for some tasks, always for the same ones.
        client.begin_candidate("v2", share=0.4)
        answers = client.predict_many(batch(40, seed=99)[0], TASKS)
        by_candidate = {task for task, answer in zip(TASKS, answers, strict=True) if answer.version == "v2"}
        assert 4 <= len(by_candidate) <= 30
        single = client.predict(batch(1, seed=99)[0][0], TASKS[0])
        assert (single.version == "v2") == (TASKS[0] in by_candidate)
        service.kill()

    # After a kill the candidate continues from the same state.
    with running(data, *arguments) as service, Client(service.url) as client:
        again = client.predict_many(batch(40, seed=99)[0], TASKS)
        assert [(answer.version, answer.margin) for answer in again] == [
            (answer.version, answer.margin) for answer in answers
        ]
        client.begin_candidate("v2", share=1.0)
        expected = margins(client)
        client.promote()
        assert margins(client) == expected
        versions = client.versions()
        assert versions["candidate"] is None and versions["current"] == "v2"
        assert [event["action"] for event in versions["events"]] == ["promote", "activate", "activate"]
        assert client.promote() == versions["events"][0]["position"]  # a retry changes nothing
        client.rollback()
        with pytest.raises(InputError, match="there is none"):
            client.promote()
        assert margins(client) != expected
        client.delete_version("v2")
        assert "v2" not in [version["name"] for version in client.versions()["versions"]]


@pytest.mark.parametrize("name", ["../v1", "", "candidate-1", "a b", "x" * 65])
def test_invalid_version_names_are_refused(tmp_path, name):
    from budgetron.durable.versions import Versions

    with pytest.raises(InputError, match="letters, digits"):
        Versions(tmp_path).save(name, b"content")
    assert not list(tmp_path.iterdir())


def test_a_saved_version_cannot_be_changed(tmp_path):
    from budgetron.durable.versions import MAX_VERSIONS, NoVersion, Versions

    versions = Versions(tmp_path)
    versions.save("v1", b"one")
    versions.save("v1", b"one")
    with pytest.raises(InputError, match="exists, with other content"):
        versions.save("v1", b"two")
    assert Versions(tmp_path).read("v1") == b"one"
    with pytest.raises(NoVersion, match="v1"):
        versions.read("v2")
    for position in range(10):  # of the versions that replacements save automatically, only the latest are kept
        versions.replaced("activate", "v1", versions.save_replaced(b"old %d" % position, position), position, "")
    assert len(versions.names()) <= 7 and versions.read("replaced-9") == b"old 9"
    for n in range(MAX_VERSIONS - 1):
        versions.save(f"n{n}", b"")
    with pytest.raises(InputError, match="Delete some first"):
        versions.save("one-more", b"")


def test_a_replaced_model_is_saved_even_if_there_are_as_many_versions_as_allowed(tmp_path):
    from budgetron.durable.versions import MAX_VERSIONS, Versions

    versions = Versions(tmp_path)
    for n in range(MAX_VERSIONS):
        versions.save(f"v{n}", b"")
    name = versions.save_replaced(b"the model in use", 7)
    assert name == versions.save_replaced(b"the model in use", 7)  # a repeated request
    assert versions.read(name) == b"the model in use"
    with pytest.raises(InputError, match="replaced-"):
        versions.save("replaced-8", b"mine")  # otherwise a rollback could take this content for a replaced model


@pytest.mark.parametrize("content", [b"{", b'{"current":7}', b'{"current":"\xff"}'], ids=["torn", "type", "not UTF-8"])
def test_a_damaged_list_of_versions_is_reported_as_damage(tmp_path, content):
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "state.json").write_bytes(content)
    with pytest.raises(DamagedLog, match=r"state\.json is damaged: .*Delete the file"):
        Versions(tmp_path)
