"""Nothing acknowledged is lost and nothing is learned twice if the process is killed at any moment."""

from __future__ import annotations

import pytest
from kills import run


def test_nothing_acknowledged_is_lost_in_eight_kills(tmp_path):
    counts = run(tmp_path, 8, seed=1)
    assert counts["acknowledged"] > 60  # each of the three senders continues until it has more than 20


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_in_two_hundred_kills(tmp_path):
    counts = run(tmp_path, 200, seed=2)
    print(counts)
    assert counts["acknowledged"] >= 100  # one for every two kills; how many more depends on the machine
