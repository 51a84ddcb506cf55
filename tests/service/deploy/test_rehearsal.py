"""The commands of docs/how-to/service/rehearsal.md, run in their order, print what the page shows.

The ports are replaced by free ports. If nginx or openssl is not available, the commands in `WITHOUT_NGINX` are replaced
as well, so that the other steps are still tested.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_signals import default_signals
from debian import DEPLOY, ROOT, tool
from running import free_ports

PAGE = ROOT / "docs" / "how-to" / "service" / "rehearsal.md"
BLOCK = re.compile(r"^```shell\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)
END = "---- end of a block"
WITHOUT_NGINX = {
    "SERVICE=https://localhost:8443/v1": "SERVICE=http://localhost:8000/v1",
    "sed -i 's|server 127.0.0.1:8000|server 127.0.0.1:8001|' budgetron.conf": "SERVICE=http://localhost:8001/v1",
    "\nopenssl ": "\ntrue ",
    "\nnginx ": "\ntrue ",
}


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is for Linux")
def test_the_commands_of_the_page_print_what_it_says(tmp_path):
    missing = [name for name in ("bash", "curl", "prlimit") if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    text, paths = PAGE.read_text(), [Path(sys.executable).parent]
    try:
        paths += [Path(tool(name, name)).parent for name in ("nginx", "openssl")]
    except pytest.skip.Exception:
        for old, new in WITHOUT_NGINX.items():
            assert old in text
            text = text.replace(old, new)
    ports = dict(zip(("8000", "8001", "8443"), free_ports(3), strict=True))
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "nginx.conf").write_text(with_ports((DEPLOY / "nginx.conf").read_text(), ports))
    blocks = BLOCK.findall(with_ports(text, ports))
    assert len(blocks) == text.count("```shell") >= 12

    script = "".join(f"{commands}\necho; echo '{END}'\n" for commands, _ in blocks)
    printed, errors = run_script(script, tmp_path, paths)
    parts = printed.split(f"{END}\n")
    for (commands, expected), part in zip(blocks, parts, strict=False):
        assert lines(part) == lines(expected), f"{commands}\n{printed}\n{errors}"
    assert len(parts) == len(blocks) + 1 and not parts[-1]


def run_script(script, folder, paths):
    """Run a script, and return its standard output and standard error. All processes that it started are ended."""
    environment = {**os.environ, "LC_ALL": "C", "no_proxy": "*", "CURL_HOME": str(folder)}
    environment["PATH"] = ":".join([*map(str, paths), os.environ["PATH"]])
    with default_signals():
        process = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    try:
        return process.communicate(timeout=600)
    finally:
        end_session(process, folder / "rehearsal" / "nginx.pid")


def with_ports(text, ports):
    return re.sub(r"(?<=:)\d{4}\b|(?<=--port )\d{4}\b", lambda match: str(ports[match[0]]), text)


def lines(text):
    return [line for line in text.splitlines() if line]


def end_session(process, nginx):
    """End the processes that a failed script leaves: its process group, and nginx, which has a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, FileNotFoundError, ValueError):
        os.kill(int(nginx.read_text()), signal.SIGTERM)
    process.wait(60)
    process.stdout.close()
    process.stderr.close()
