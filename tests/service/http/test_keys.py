"""API keys: no operation works without a key of a sufficient role, and no key is written to a log or file."""

from __future__ import annotations

import datetime
import shutil
import ssl
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from running import Running, running, until

from budgetron.cli import main
from budgetron.errors import InputError
from budgetron.service.http import api_keys
from budgetron.service.http.api_keys import ApiKey
from budgetron.service.http.operations import MODEL_OPERATIONS, SERVICE_OPERATIONS, SERVICE_PATHS
from budgetron.service.http.rates import Rates
from budgetron.service.settings import ServiceSettings

EXAMPLES = {"examples": [{"features": [1.0, 2.0], "label": 1}, {"features": [2.0, 1.0], "label": 0}]}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    return path, {role: api_keys.add(path, f"the {role}".replace(" ", "-"), role) for role in api_keys.ROLES}


@pytest.fixture(scope="module")
def service(tmp_path_factory, tokens):
    options = ("Budgetron budget=10", "--keys", tokens[0], "--log-requests")
    with running(tmp_path_factory.mktemp("keyed"), *options) as service:
        with service.client(headers=bearer(tokens[1]["learn"])) as client:
            assert client.post("/v1/learn", json=EXAMPLES).status_code == 200
        yield service


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def status_of(client, route, headers):
    """Request an operation, with an empty JSON object if it needs a body, and return the status."""
    path = "/v1/" + route.path.replace("{task}", "0")
    if route.path == "events":
        with client.stream("GET", path, headers=headers) as answer:
            return answer.status_code
    body = {"json": {}} if route.request is not None else {}
    return client.request(route.method, path, headers=headers, **body).status_code


@pytest.mark.parametrize(
    "route", [*MODEL_OPERATIONS, *SERVICE_OPERATIONS], ids=lambda route: f"{route.method} {route.path}"
)
def test_every_operation_requires_its_role(client, tokens, route):
    wrong = [None, "", "Bearer", "Bearer wrong", "Basic " + tokens[1]["admin"], tokens[1]["admin"]]
    for header in wrong:
        assert status_of(client, route, {} if header is None else {"Authorization": header}) == 401, header
    for role in api_keys.ROLES:
        status = status_of(client, route, bearer(tokens[1][role]))
        allowed = api_keys.ROLES.index(role) >= api_keys.ROLES.index(route.role)
        assert (status not in (401, 403)) if allowed else status == 403, (role, status)


def test_health_paths_need_no_key_and_metrics_need_one(client, tokens):
    for path, (role, _) in SERVICE_PATHS.items():
        assert client.get(path).status_code == (200 if role is None else 401), path
        assert client.get(path, headers=bearer(tokens[1]["predict"])).status_code == 200, path


def test_keys_are_never_logged_and_the_file_does_not_hold_them(service, client, tokens):
    client.get("/v1/model", headers=bearer(tokens[1]["admin"]))
    client.get("/v1/model", headers=bearer("guess-me"))
    until(lambda: any(line.get("key") == "the-admin" for line in service.events("request")))
    seen = repr(service.log) + tokens[0].read_text()
    assert not any(token in seen for token in tokens[1].values()) and "guess-me" not in seen
    assert (tokens[0].stat().st_mode & 0o077) == 0


def test_keys_are_added_and_revoked_without_a_restart(tmp_path):
    path = tmp_path / "keys"
    first = api_keys.add(path, "first", "predict")
    keys = api_keys.ApiKeys(path)
    second = api_keys.add(path, "second", "learn", rate=5)
    keys.refresh()
    assert keys.find(second) == ApiKey("second", "learn", api_keys.read_keys(path)[1].digest, 5.0)
    assert keys.find(first)
    path.write_text(path.read_text().splitlines(keepends=True)[1])
    keys.refresh()
    assert keys.find(first) is None and keys.find(second)
    path.write_text("rubbish\n")
    keys.refresh()
    # Keys stay valid for a short time if their file cannot be read, because an editor may be replacing it.
    assert "line 1" in keys.error and keys.find(second)


@pytest.mark.parametrize("damage", ["removed", "rubbish", "world-writable"])
def test_keys_stop_working_when_their_file_cannot_be_read(tmp_path, monkeypatch, damage):
    now = [1000.0]
    monkeypatch.setattr("budgetron.service.http.api_keys.time", SimpleNamespace(monotonic=lambda: now[0]))
    path = tmp_path / "keys"
    token = api_keys.add(path, "app", "learn")
    content, keys = path.read_text(), api_keys.ApiKeys(path)
    if damage == "removed":
        path.unlink()
    elif damage == "rubbish":
        path.write_text("rubbish\n")
    else:
        path.chmod(0o666)
        path.write_text(content)
    for _ in range(3):
        keys.refresh()
        assert keys.error and keys.find(token)
        now[0] += api_keys.GRACE / 4
    now[0] += api_keys.GRACE
    keys.refresh()
    with pytest.raises(api_keys.KeysUnreadable, match="so no key is accepted"):
        keys.find(token)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(content)
    keys.refresh()
    assert keys.find(token).name == "app" and not keys.error


def test_keys_expire_and_are_for_certain_models(tmp_path):
    path = tmp_path / "keys"
    today = datetime.datetime.now(datetime.UTC).date()
    old = api_keys.add(path, "old", "predict", expires=today - datetime.timedelta(days=2))
    new = api_keys.add(path, "new", "predict", expires=today + datetime.timedelta(days=2))
    other = api_keys.add(path, "other", "admin", models=("other",))
    options = ("Budgetron budget=10", "other=Budgetron budget=10", "--keys", path)
    with running(tmp_path / "data", *options) as service, service.client() as client:
        assert client.get("/v1/model", headers=bearer(old)).status_code == 401
        assert client.get("/v1/model", headers=bearer(new)).status_code == 200
        assert client.get("/v1/model", headers=bearer(other)).status_code == 403
        assert client.get("/v1/models/other/model", headers=bearer(other)).status_code == 200
        twice = [("Authorization", f"Bearer {new}"), ("Authorization", f"Bearer {other}")]
        assert client.get("/v1/model", headers=twice).status_code == 400


@pytest.mark.parametrize("content", ["", "# only words\n", "a b c\n", "ann chief " + "0" * 64, "ann learn zz\n",
                                     "ann learn " + "0" * 63 + "\n", "ann learn " + "0" * 64 + " x\n",
                                     2 * ("ann learn " + "0" * 64 + "\n")])  # fmt: skip
def test_a_bad_key_file_is_refused_without_showing_it(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    with pytest.raises(InputError, match="must be") as refused:
        api_keys.ApiKeys(tmp_path / "keys")
    assert "0" * 20 not in str(refused.value)


def test_keys_are_added_and_listed_by_the_command(tmp_path):
    path = str(tmp_path / "keys")
    done = CliRunner().invoke(main, ["keys", "add", path, "app", "predict", "--rate", "100"])
    assert done.exit_code == 0 and done.stdout.startswith("bt_")
    again = CliRunner().invoke(main, ["keys", "add", path, "app", "learn"])
    assert again.exit_code == 2 and "not in the file yet" in again.output
    options = ["--expires", "2030-01-31", "--model", "spam", "--model", "clicks"]
    assert CliRunner().invoke(main, ["keys", "add", path, "other", "learn", *options]).exit_code == 0
    shown = CliRunner().invoke(main, ["keys", "list", path])
    lines = ["app  predict  100 examples/s", "other  learn  until 2030-01-31  models spam, clicks"]
    assert shown.stdout.splitlines() == lines
    for name in ("two words", "a#b", ""):
        assert CliRunner().invoke(main, ["keys", "add", path, name, "learn"]).exit_code == 2


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  # the first key"])
def test_a_key_gets_its_own_line_however_the_file_ends(tmp_path, end):
    path = tmp_path / "keys"
    first = api_keys.add(path, "app", "predict")
    path.write_bytes(path.read_bytes().removesuffix(b"\n") + end.encode())
    second = api_keys.add(path, "other", "learn")
    keys = api_keys.ApiKeys(path)
    assert [keys.find(token).name for token in (first, second)] == ["app", "other"]


@pytest.mark.parametrize("rate", ["1234567", "0.12345678", "999999999999.5", "1e-5"])
def test_a_rate_is_stored_and_listed_with_all_its_digits(tmp_path, rate):
    path = str(tmp_path / "keys")
    assert CliRunner().invoke(main, ["keys", "add", path, "app", "learn", "--rate", rate]).exit_code == 0
    assert [key.rate for key in api_keys.read_keys(tmp_path / "keys")] == [float(rate)]
    words = CliRunner().invoke(main, ["keys", "list", path]).stdout.split()
    assert float(words[2]) == float(rate) and words[3:] == ["examples/s"]


@pytest.mark.parametrize("rate", ["1e12", "inf", "nan", "0", "-1"])
def test_a_rate_that_the_file_cannot_hold_is_refused(tmp_path, rate):
    path = tmp_path / "keys"
    done = CliRunner().invoke(main, ["keys", "add", str(path), "app", "learn", "--rate", rate])
    assert done.exit_code == 2 and "--rate" in done.output and not path.exists()


def test_a_rate_limit_allows_two_seconds_of_examples_at_once(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("budgetron.service.http.rates.time", SimpleNamespace(monotonic=lambda: now[0]))
    rates, key = Rates(0.0), ApiKey("app", "learn", b"", 100.0)
    assert rates.seconds_to_wait(ApiKey("free", "learn", b""), 10**9) == 0
    assert rates.seconds_to_wait(key, 150) == 0  # the bucket holds 200, the examples of two seconds
    assert rates.seconds_to_wait(key, 100) == pytest.approx(0.5)
    assert rates.seconds_to_wait(key, 40) == 0
    now[0] += 0.1  # the bucket had 10 left, and gets 10 more in a tenth of a second
    assert rates.seconds_to_wait(key, 10**6) == pytest.approx(1.8)  # waits until the bucket is full
    now[0] += 1.9
    assert rates.seconds_to_wait(key, 10**6) == 0


def test_requests_beyond_the_rate_get_429_with_retry_after(tmp_path):
    path = tmp_path / "keys"
    token = api_keys.add(path, "app", "learn", rate=0.01)  # too slow for a second request on any machine
    with running(tmp_path / "data", "--keys", path) as service, service.client(headers=bearer(token)) as client:
        answers = [client.get("/v1/model") for _ in range(3)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and refused[0].json()["error"]["kind"] == "too_many"
        assert int(refused[0].headers["retry-after"]) >= 1


def test_serving_other_machines_without_keys_is_refused(tmp_path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(InputError, match="this machine's own address"):
            ServiceSettings(tmp_path, host=host).checked()
        ServiceSettings(tmp_path, host=host, without_keys=True).checked()
    for host in ("127.0.0.1", "::1", "localhost", "127.1.2.3"):
        ServiceSettings(tmp_path, host=host).checked()
    done = CliRunner().invoke(main, ["serve", "--data", str(tmp_path), "--host", "0.0.0.0"])
    assert done.exit_code == 2 and "budgetron keys" in done.output


def test_a_service_with_a_certificate_answers_https(tmp_path):
    openssl = shutil.which("openssl") or pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    done = subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("this openssl cannot make such a certificate")
    with running(tmp_path / "data", "--tls-certificate", certificate, "--tls-key", key) as service:
        assert service.url.startswith("https://")
        with service.client(verify=ssl.create_default_context(cafile=certificate)) as client:
            assert client.get("/healthz").status_code == 200


def test_serve_refuses_invalid_options(tmp_path):
    invoke = CliRunner().invoke
    for arguments, words in (
        (["=Budgetron"], "NAME=MODEL"), (["no.budgetron"], "an existing model file"),
        (["Nothing"], "the learner in MODEL must be"), (["Budgetron", "Forgetron"], "one model per name"),
        (["Budgetron budget=0"], "budget= in MODEL must be"), (["Budgetron x=1"], "a setting in MODEL must be"),
    ):  # fmt: skip
        done = invoke(main, ["serve", *arguments, "--data", str(tmp_path)])
        assert done.exit_code == 2 and words in done.output, (arguments, done.output)
    with running(tmp_path / "one") as service:
        port = service.url.rsplit(":", 1)[1]
        taken = [sys.executable, "-m", "budgetron", "serve", "--data", tmp_path / "two", "--port", port]
        done = subprocess.run(taken, capture_output=True, text=True)
        assert done.returncode == 2 and "a free address of this machine" in done.stderr
        with pytest.raises(RuntimeError, match="is open in another process"):
            Running(tmp_path / "one")
