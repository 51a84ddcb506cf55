"""Random faults under load: every acknowledged example is learned exactly once, and /readyz tells the truth."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a disk is filled with prlimit, which Linux has")


def test_nothing_is_lost_in_a_day_with_a_few_faults_of_every_kind(tmp_path):
    from day import FAULTS, run

    happened = run(tmp_path, 14, seed=1)
    assert set(happened["faults"]) == set(FAULTS) and sum(happened["faults"].values()) == 14
    assert happened["acknowledged"] > 60 and happened["lines"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_a_day_with_three_hundred_faults(tmp_path):
    from day import run

    happened = run(tmp_path, 300, seed=2)
    print(happened)
    assert sum(happened["faults"].values()) == 300 and min(happened["faults"].values()) > 2
    assert happened["acknowledged"] > 500 and happened["compared"] > 10 and happened["probes"][503] > 10
