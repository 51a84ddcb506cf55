"""Shards on a real Ray cluster: two nodes, token authentication, and kills under load.

A cluster takes seconds to start, so each test runs all its scenarios on a single cluster.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"),
    pytest.mark.skipif(sys.platform == "win32", reason="Ray's local clusters are for Linux and macOS"),
    pytest.mark.timeout(1800),
]
SCENARIOS = Path(__file__).with_name("ray_scenarios.py")


def run_scenarios(tmp_path, *scenarios):
    """Run scenarios in a separate process, because of Ray's threads, warnings and signals. Returns their results."""
    result = tmp_path / "result.json"
    command = [sys.executable, str(SCENARIOS), str(result), str(tmp_path), *scenarios]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return json.loads(result.read_text())


def test_nothing_is_lost_when_workers_or_a_node_are_killed(tmp_path):
    results = run_scenarios(tmp_path, "kills:2", "node")
    expected = {"killed": 2, "equal": True, "n_seen": 3200, "recovered": True, "promoted": True, "threads": []}
    assert results["kills:2"] == expected
    assert results["node"] == {"equal": True, "n_seen": 2400, "moved": True, "added": True}


@pytest.mark.long
def test_former_owners_cannot_write_and_processes_with_another_token_cannot_connect(tmp_path):
    results = run_scenarios(tmp_path, "stale", "other_token")
    assert results["stale"] == {"refused": True, "equal": True, "n_seen": 1200}
    assert results["other_token"] == {"admitted": True, "refused": True}


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_nothing_is_lost_when_connections_end_or_cannot_be_made(tmp_path):
    results = run_scenarios(tmp_path, "false_alarms", "no_connection")
    assert results["false_alarms"] == {"equal": True, "n_seen": 2400, "swapped": True, "recovered": True}
    assert results["no_connection"] == {"equal": True, "n_seen": 900, "no_links": True, "recovered": True}


@pytest.mark.long
def test_a_restarted_spare_keeps_the_name_of_the_worker_that_it_replaced(tmp_path):
    results = run_scenarios(tmp_path, "restarted_spare")
    assert results["restarted_spare"] == {"equal": True, "names": ["worker-0"]}


@pytest.mark.long
def test_after_twenty_kills_all_margins_are_identical(tmp_path):
    results = run_scenarios(tmp_path, "kills:18", "node", "node-again")
    assert results["kills:18"]["killed"] == 18 and results["kills:18"]["equal"]
    assert results["node"]["equal"] and results["node-again"]["equal"]
