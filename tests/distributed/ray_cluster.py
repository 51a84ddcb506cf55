"""Start a Ray cluster of two nodes on this machine, with token authentication, and kill parts of it.

`ray_scenarios` uses it. A spare is a process that is ready to replace a lost worker. The head node has no CPUs, so
workers start on the other nodes; only spares, which reserve no CPU, may start on the head. No test kills the head.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import contextmanager
from pathlib import Path

OBJECT_STORE_BYTES = 80 * 2**20  # per node
FAST_HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 3,
}


@contextmanager
def two_nodes(cpus=2):
    """The cluster, with this process connected to it; everything is stopped afterwards."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "OMP_NUM_THREADS": "1"}
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    head["_system_config"] = FAST_HEALTH_CHECKS
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        add_node(cluster, cpus)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster, cpus=2):
    return cluster.add_node(num_cpus=cpus, object_store_memory=OBJECT_STORE_BYTES)


def kill_raylet(node):
    """Kill the node's raylet process with SIGKILL. Ray then ends the workers of the node too."""
    for info in node.all_processes["raylet"]:
        os.kill(info.process.pid, signal.SIGKILL)


def nodes_alive():
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def is_gone(pid):
    """Whether the process has ended. A zombie process counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:  # no /proc, or the process ended a moment ago: a later call finds out
        return False


def wait_until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.1)
