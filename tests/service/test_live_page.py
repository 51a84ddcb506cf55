"""The live page in a real browser, for a real service that is learning."""

from __future__ import annotations

import re

import numpy as np
import pytest
from running import free_port, running

from budgetron import Budgetron, io
from budgetron.service.http import api_keys

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
TASKS = [*(f"user {number}" for number in range(20)), HOSTILE]
LABELS = ".card:nth-child(2) small"
WIDTHS = "() => document.documentElement.scrollWidth <= innerWidth"


def learn_examples(service, n, seed=0):
    """Send labelled examples of all the tasks."""
    rng = np.random.default_rng(seed)
    rows, tasks = rng.standard_normal((n, 3)).round(3), rng.integers(0, len(TASKS), n)
    examples = [
        {"features": row.tolist(), "label": "spam" if row[0] + 0.3 * noise > 0 else "ham", "task": TASKS[task]}
        for row, task, noise in zip(rows, tasks, rng.standard_normal(n), strict=True)
    ]
    with service.client() as client:
        for start in range(0, n, 200):
            body = {"examples": examples[start : start + 200], "classes": ["ham", "spam"]}
            assert client.post("/v1/learn", json=body).status_code == 200


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state"), "Budgetron budget=30", "other=Forgetron budget=5") as service:
        learn_examples(service, 1000)
        yield service


@pytest.fixture
def opened(browser):
    """Open the page of a service. After the test, check that there were no errors and no requests to other hosts."""
    contexts, complaints = [], []

    def open_page(service, width=1200, scheme="light", expected=()):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # long, for a busy machine
        page.on("console", lambda m: None if any(e in m.text for e in expected) else complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        ours = (service.url, "data:,")
        page.on("request", lambda r: None if r.url.startswith(ours) else complaints.append(r.url))
        page.goto(service.url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def card(page, name):
    named = page.locator("dt", has_text=re.compile(f"^{name}$"))
    return page.locator(".card", has=named).locator("dd span").inner_text()


def wait_for_other_text(locator, old):
    # `wait_for_function` cannot be used: it calls `eval`, which the content security policy of the page forbids.
    locator.filter(has_not_text=re.compile(f"^{re.escape(old)}$")).wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_the_page_shows_the_service_at_work(opened, service, least_contrast, width, scheme):
    page = opened(service, width, scheme)
    page.wait_for_selector("#main:not([hidden])")
    assert card(page, "Tasks") == "21" and "live" in page.get_by_role("status").first.inner_text()
    for chart in ("error", "f", "auc", "precision", "memory", "beliefs"):
        drawn = page.locator(f"[data-chart={chart}]")
        assert int(drawn.get_attribute("data-drawn")) >= 4 and drawn.locator("canvas").count() == 1
    page.get_by_text("The numbers as a table").click()
    assert page.evaluate(WIDTHS)
    page.locator("#numbers-rows tr").nth(3).wait_for(state="attached")  # the table is filled after it was opened
    worst, where = least_contrast(page)
    assert worst >= 4.5, where
    assert page.locator("#mistakes tr").count() >= 1
    assert "The largest part of the weight says that" in page.locator("#beliefs-says").inner_text()
    with service.client() as client:
        beliefs = client.get("/v1/live").json()["beliefs"]
    words = {row["words"] for row in beliefs}
    assert set(page.locator("#beliefs-rows th").all_inner_texts()) == words  # the same words as in the report
    assert page.locator("#relations-rows tr").count() == 21 == page.locator("#relations-rows tr:first-child td").count()
    assert page.locator("#relations-rows td.plus5").count() >= 21  # the diagonal, at least
    page.get_by_label("Search tasks").fill("img")
    assert page.locator("#tasks tbody th").all_inner_texts() == [HOSTILE[:60]]
    assert page.title() == "Budgetron" and page.locator("img").count() == 0


def test_the_page_follows_what_is_learned_until_it_is_paused(opened, service):
    page = opened(service)
    page.wait_for_selector("#main:not([hidden])")
    labels = page.locator(LABELS)
    before = labels.inner_text()
    learn_examples(service, 200, seed=1)
    wait_for_other_text(labels, before)
    page.get_by_role("button", name="Pause").click()
    before = labels.inner_text()
    other = opened(service)  # a page that is not paused shows when the paused page could have been updated
    other.wait_for_selector("#main:not([hidden])")
    for seed in (2, 3):
        shown = other.locator(LABELS).inner_text()
        learn_examples(service, 200, seed)
        wait_for_other_text(other.locator(LABELS), shown)
    assert labels.inner_text() == before
    page.get_by_role("button", name="Continue").click()
    wait_for_other_text(labels, before)


def test_the_page_names_the_columns_of_a_model_from_a_file(opened, tmp_path):
    colours = ("red", "blue")
    rows = [f"u{i % 3},{i % 7},{colours[i % 2]},win prize number {i % 19} now,{int(i % 7 > 3)}" for i in range(300)]
    (tmp_path / "mail.csv").write_text("user,size,colour,note,label\n" + "\n".join(rows) + "\n")
    with io.read(tmp_path / "mail.csv", text="note") as stream:
        (block,) = stream
    model = Budgetron(budget="20 KiB").fit(block.X, block.y, tasks=block.tasks)  # only a hashed table fits
    io.save_model(tmp_path / "mail.budgetron", model, stream.columns)
    with running(tmp_path / "data", str(tmp_path / "mail.budgetron")) as service:
        page = opened(service)
        page.get_by_text("A JSON object with the columns size, colour, note.").wait_for()
        example = {"features": {"size": 3, "colour": "red", "note": "win prize"}, "label": 1, "task": "u1"}
        with service.client() as client:
            assert client.post("/v1/learn", json=example).status_code == 200
        # The beliefs of a table assume nothing about how tasks are related, so the page says nothing about relations.
        page.locator("#beliefs-says", has_text=re.compile(r"by how well each predicts\.\s*$")).wait_for()
        page.close()  # before the service stops: the page would try to connect again, and log that it cannot


def test_the_chart_of_beliefs_has_the_heaviest_ones(opened, tmp_path):
    """A Budgetron with tasks has more beliefs than the chart has colours. The heaviest one here is the tenth."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(1500, 4)), rng.integers(16, size=1500)
    labels = X[:, 0] * np.where(tasks % 2, 1, -1) > 0  # two kinds of tasks, with opposite labels
    with running(tmp_path / "data", "Budgetron") as service:
        with service.client() as client:
            for part in np.array_split(np.arange(1500), 3):
                examples = [
                    {"features": X[i].tolist(), "label": bool(labels[i]), "task": f"machine {tasks[i]}"} for i in part
                ]
                assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
            beliefs = client.get("/v1/live").json()["beliefs"]
        heaviest = max(beliefs, key=lambda belief: belief["weight"])
        assert len(beliefs) > 8 and heaviest["weight"] > 0.9
        page = opened(service)
        page.locator("[data-chart=beliefs] .u-legend", has_text=heaviest["words"]).wait_for()
        page.close()


def test_a_prediction_on_the_page_equals_that_of_the_service(opened, service):
    page = opened(service, expected=["400 (Bad Request)", "422 ("])
    page.wait_for_selector("#main:not([hidden])")
    page.get_by_label("Task", exact=True).fill("user 3")
    page.get_by_label("Features").fill("1.5, 0 0")
    page.get_by_role("button", name="Predict", exact=True).click()
    answer = page.locator("#answer")
    answer.get_by_text("Predicted: spam").wait_for()
    with service.client() as client:
        same = client.post("/v1/predict", json={"features": [1.5, 0, 0], "task": "user 3"})
        refused = client.post("/v1/predict", json={"features": [1, 2], "task": "user 3", "explain": True})
    probability = same.json()["probabilities"]["spam"]
    assert f"{100 * probability:.1f} %" in answer.inner_text()
    assert "Reasons for spam" in answer.inner_text()
    assert "x0" in answer.locator("table.reasons").inner_text()
    page.get_by_label("Features").fill("1 two")
    page.get_by_role("button", name="Predict", exact=True).click()
    answer.get_by_text("Features must be numbers").wait_for()
    page.get_by_label("Features").fill("[1, 2]")
    page.get_by_role("button", name="Predict", exact=True).click()
    message = refused.json()["error"]["message"]
    assert refused.status_code == 422 and "3" in message  # the model has three features
    answer.get_by_text(message, exact=True).wait_for()


def test_labels_are_asked_for_and_corrected(opened, service):
    with service.client() as client:
        learned = client.post("/v1/learn", json={"features": [0.2, 0, 0], "label": "ham", "task": "user 1"}).json()
        asked = client.post("/v1/predict", json={"features": [0.01, 0, 0], "task": "user 1", "ask": 1.0}).json()
    assert asked["ask"] is True
    page = opened(service, expected=["422 ("])
    page.wait_for_selector("#main:not([hidden])")
    page.locator("#queue-note", has_text="1 prediction waits for a label").wait_for()
    page.get_by_role("button", name="Show the queue").click()
    row = page.locator("#queue-rows tr")
    assert "[0.01,0,0]" in row.inner_text().replace(" ", "")
    row.get_by_role("button", name="spam").click()
    page.locator("#queue-says", has_text="Learned: spam").wait_for()
    page.locator("#queue-note", has_text="None.").wait_for()
    page.get_by_label("Record").fill(str(learned["position"]))
    page.get_by_label("Right label").fill("eggs")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.locator("#corrections-says", has_text="known classes").wait_for()
    page.get_by_label("Right label").fill("spam")
    page.get_by_label("Reason").fill("a slip")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.locator("#corrections-says", has_text="learned again").wait_for()
    assert "a slip" in page.locator("#corrections-rows tr").inner_text() and page.evaluate(WIDTHS)
    page.locator("#corrections-note", has_text="1 so far").wait_for()


def test_any_task_is_looked_up_and_another_model_chosen(opened, service):
    page = opened(service, expected=["404 (Not Found)"])
    page.wait_for_selector("#main:not([hidden])")
    page.get_by_label("Any task by its name").fill(HOSTILE)
    page.get_by_role("button", name="Look up").click()
    page.locator("#found", has_text="error").wait_for()
    page.get_by_label("Any task by its name").fill("nobody")
    page.get_by_role("button", name="Look up").click()
    page.locator("#found", has_text="the model stores no example of").wait_for()
    page.locator("select#model").select_option("other")
    page.locator("#empty", has_text="learned nothing yet").wait_for()
    assert "Forgetron" in page.get_by_role("status").first.inner_text() and page.locator("#beliefs").is_hidden()


def test_a_service_that_was_killed_before_its_first_label_is_followed_again(opened, tmp_path):
    port = free_port()
    with running(tmp_path / "state", port=port) as first:
        page = opened(first, expected=["ERR_", "Failed to load"])
        page.wait_for_selector("#main:not([hidden])")
        first.kill()
        page.locator("#status", has_text="Trying again").wait_for()
        with running(tmp_path / "state", port=port):
            page.locator("#status", has_text="is live").wait_for()


def test_the_page_asks_for_a_key_and_forgets_it(opened, tmp_path):
    token = api_keys.add(tmp_path / "keys", "eye", "predict")
    with running(tmp_path / "state", "--keys", tmp_path / "keys") as service:
        page = opened(service, expected=["401 (Unauthorized)", "ERR_", "Failed to load"])
        key = page.get_by_label("This service needs an API key")
        show_button = page.get_by_role("button", name="Show statistics")
        key.fill("bt_wrong")
        show_button.click()
        page.get_by_text("That key is not accepted").wait_for()
        assert page.locator("#main").is_hidden()
        key.fill(token)
        show_button.click()
        page.locator("#empty", has_text="learned nothing yet").wait_for()
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert token not in page.url and token not in page.content()
        page.get_by_role("button", name="Forget the key").click()
        assert page.locator("#main").is_hidden() and page.evaluate("sessionStorage.length") == 0
        key.fill(token)
        show_button.click()
        page.wait_for_selector("#main:not([hidden])")
    page.locator("#status", has_text="Trying again").wait_for()  # the page shows that the service has stopped
