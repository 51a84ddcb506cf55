"""/readyz: 503 with the reason while labels cannot be learned, and 200 again when the cause is gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from running import running, until

from budgetron.durable import Host

EXAMPLES = [{"features": [i / 50, 1.0], "label": i % 2, "task": f"t{i % 4}"} for i in range(50)]
LOCAL = ("RandomBudgetPerceptron budget=30",)
SHARDS = ("Budgetron budget=30 graph=disconnected", "--shards", 2)
BOTH = pytest.mark.parametrize("arguments", [LOCAL, SHARDS], ids=["one model", "shards"])


def learn(client):
    return client.post("/v1/learn", json={"examples": EXAMPLES})


def is_ready(client):
    return client.get("/readyz").status_code == 200


def reason(client):
    """Wait until the service is not ready, and return the reason."""
    answer = until(lambda: (ready := client.get("/readyz")).status_code == 503 and ready).json()
    assert answer["status"] == "cannot write" and answer["failing"] == ["default"]
    return answer["reasons"]["default"]


@BOTH
def test_a_service_with_a_full_disk_is_not_ready(tmp_path, arguments):
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip(f"no prlimit on {sys.platform}")
    with running(tmp_path, *arguments) as service, service.client() as client:
        assert learn(client).status_code == 200
        assert is_ready(client)
        pid, unlimited = service.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        # A limit of the file size makes writes fail as on a full disk.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
        assert reason(client).startswith("disk: ")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        until(lambda: is_ready(client))
        assert learn(client).status_code == 200


def test_a_service_is_not_ready_after_a_label_did_not_fit_on_the_disk(tmp_path):
    """The service is not ready until a block as large as the one that did not fit could be written.

    A check that wrote only a few bytes would succeed too early.
    """
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip(f"no prlimit on {sys.platform}")
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        assert learn(client).status_code == 200
        pid, unlimited = service.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        size = max(path.stat().st_size for path in (tmp_path / "default").iterdir())
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 100_000, resource.RLIM_INFINITY))
        many = {"examples": EXAMPLES * 200}
        assert client.post("/v1/learn", json=many).status_code == 507
        for _ in range(3):
            assert reason(client).startswith("disk: ")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        until(lambda: is_ready(client))
        assert client.post("/v1/learn", json=many).status_code == 200


def test_a_service_is_not_ready_while_another_file_fills_its_disk(tmp_path):
    """Uses a real file system of 8 MiB, if this user may mount it."""
    mount_point = tmp_path / "small"
    mount_point.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount_point], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        with running(mount_point, *LOCAL) as service, service.client() as client:
            assert learn(client).status_code == 200
            until(lambda: is_ready(client))
            with open(mount_point / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            assert reason(client).startswith("disk: ")
            os.unlink(mount_point / "filler")
            until(lambda: is_ready(client))
            assert learn(client).status_code == 200
    finally:
        subprocess.run(["umount", mount_point], check=True)


@BOTH
def test_a_service_with_a_later_owner_is_not_ready(tmp_path, arguments):
    with running(tmp_path, *arguments) as service, service.client() as client:
        assert learn(client).status_code == 200
        until(lambda: is_ready(client))
        folder = tmp_path / "default" if arguments == LOCAL else tmp_path / "default" / "shards" / "shard-00001"
        with Host.open(folder, epoch=10**9):
            assert reason(client).startswith("not_owner: ")
        if arguments == LOCAL:
            answer = learn(client)
            assert answer.status_code == 503 and answer.json()["error"]["kind"] == "not_owner"


@BOTH
def test_a_service_is_not_ready_while_its_directory_is_moved_away(tmp_path, arguments):
    with running(tmp_path, *arguments) as service, service.client() as client:
        assert learn(client).status_code == 200
        until(lambda: is_ready(client))
        seen = client.get("/v1/model").json()["seen"]
        (tmp_path / "default").rename(tmp_path / "elsewhere")
        assert reason(client).startswith("directory_gone: ")
        answer = learn(client)
        assert answer.status_code == 503 and answer.json()["error"]["kind"] == "directory_gone"
        assert client.get("/v1/model").json()["seen"] == seen
        (tmp_path / "elsewhere").rename(tmp_path / "default")
        until(lambda: is_ready(client))
        assert learn(client).status_code == 200


def test_a_service_whose_directory_is_removed_is_not_ready(tmp_path):
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        assert learn(client).status_code == 200
        until(lambda: is_ready(client))
        shutil.rmtree(tmp_path / "default")
        assert reason(client).startswith("directory_gone: ")
        assert learn(client).status_code == 503  # labels that were acknowledged now would be lost
        assert client.post("/v1/predict", json={"features": [0.1, 1.0], "task": "t1"}).status_code == 200
        service.stop()


def test_the_reason_names_no_path(tmp_path):
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        assert learn(client).status_code == 200
        shutil.rmtree(tmp_path / "default")
        reason(client)
        assert str(tmp_path) not in client.get("/readyz").text
        service.stop()
