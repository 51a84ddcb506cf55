"""Random faults under load: every acknowledged example is learned exactly once, and /readyz agrees with the state."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a disk is filled with prlimit, which only Linux has")


def test_nothing_is_lost_in_a_day_with_a_few_faults_of_every_kind(tmp_path):
    from day import FAULTS, run

    counts = run(tmp_path, 14, seed=1)
    assert set(counts["faults"]) == set(FAULTS) and sum(counts["faults"].values()) == 14
    # Each of the three senders continues until it has sent more than 20 examples.
    assert counts["acknowledged_examples"] > 60 and counts["stream_lines"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_a_day_with_three_hundred_faults(tmp_path):
    from day import run

    counts = run(tmp_path, 300, seed=2)
    print(counts)
    assert sum(counts["faults"].values()) == 300 and min(counts["faults"].values()) > 2
    assert counts["acknowledged_examples"] >= 150  # one for every two faults; how many more depends on the machine
    # About seven of ten full disks last until the probe has checked an answer of /readyz by sending a label.
    assert counts["readyz_answers_checked_by_label"] > 10 and counts["readyz_answers"][503] > 10
