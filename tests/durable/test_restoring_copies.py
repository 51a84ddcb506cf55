"""Earlier states of a host are restored from its copy: the state at a record, or at a point in time."""

from __future__ import annotations

import pytest
from copied_blocks import BLOCKS, BOTH_STORES, restored

from budgetron.durable import Host, open_store, restore, verify
from budgetron.durable.replication.history import read_runs
from budgetron.errors import InputError


@BOTH_STORES
def test_a_copy_is_restored_to_a_record(tmp_path, url, copied):
    host, _, states = copied
    assert len(states) == len(BLOCKS) == host.position
    assert len(read_runs(open_store(url))) > 2  # so restores to different records begin from different databases
    for position, content in list(states.items())[::3]:
        assert restored(url, tmp_path / f"at {position}", position=position) == content
    assert restored(url, tmp_path / "latest") == host.content()
    assert verify(url).examples == 72


def test_a_restored_host_does_not_learn_a_request_twice(tmp_path, url, copied):
    restore(url, tmp_path / "new", position=7)
    with Host.open(tmp_path / "new") as host:
        assert host.position == 1_000_001  # far above the numbers that the owner may have used since
        again = host.learn(*BLOCKS[6], key="block 6")
        assert again.repeated and again.position == 7
        assert not host.learn(*BLOCKS[7], key="block 7").repeated


def test_a_copy_is_restored_to_a_point_in_time(tmp_path, url, copied):
    _, _, states = copied
    objects = [segment for run in read_runs(open_store(url)) for segment in run.segments]
    chosen = objects[len(objects) // 2]
    last = max(segment.last_record for segment in objects if segment.at <= chosen.at)
    assert restored(url, tmp_path / "then", at=chosen.at / 1000) == states[last]
    with pytest.raises(InputError, match="because the copy begins then"):
        restore(url, tmp_path / "then", at=1.0)
    with pytest.raises(InputError, match="a record of the copy: 1 to "):
        restore(url, tmp_path / "then", position=99)


def test_a_directory_is_cut_back_to_a_record(tmp_path, copied):
    host, _, states = copied
    host.close()
    with pytest.raises(InputError, match="part of a snapshot"):
        restore(tmp_path / "owner", tmp_path / "owner", position=2)
    assert restored(tmp_path / "owner", tmp_path / "owner", position=11) == states[11]
    with pytest.raises(InputError, match="Only a copy"):
        restore(tmp_path / "owner", tmp_path / "owner", at=1e9)
