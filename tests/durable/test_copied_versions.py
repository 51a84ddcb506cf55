"""The named versions of a model in its copy: restores and standbys get them, and former owners cannot change them."""

from __future__ import annotations

import logging

import pytest

from budgetron import Perceptron
from budgetron.durable import Host, Replicator, open_store, restore
from budgetron.durable.replication.copied_versions import VersionCopier, fetch_versions
from budgetron.durable.replication.follower import Follower
from budgetron.durable.versions import CandidateState, Versions


@pytest.fixture
def owner(tmp_path):
    """A host that has learned and has the versions v1 and v2. v2 is in use, and is also the candidate."""
    with Host.open(tmp_path / "owner", Perceptron) as host:
        host.learn([[0.0, 1.0], [1.0, 0.0]], [0, 1])
        versions = Versions(host.directory)
        versions.save("v1", b"one")
        versions.save("v2", b"two")
        versions.save_candidate(b"beside", CandidateState("v2", 0.5, 1, 0.0))
        versions.replaced("activate", "v2", "v1", 1, "ann")
        yield host


class RecordingStore:
    """A store that records the names of the objects that are written."""

    def __init__(self, store):
        self._store, self.put_names = store, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put(self, name, content):
        self.put_names.append(name)
        self._store.put(name, content)


def copy_of(tmp_path):
    return open_store(tmp_path / "copy")


def fetch(store, folder):
    """Fetch the versions of a copy into a directory. Returns their contents by name."""
    fetch_versions(store, folder)
    versions = Versions(folder)
    return {version.name: versions.read(version.name) for version in versions.names()}


def n_files(store):
    return len(store.names("versions/files"))


@pytest.mark.parametrize("kind", ["directory", "fsspec"])
def test_a_restore_into_a_new_directory_has_the_versions(tmp_path, owner, kind):
    if kind == "fsspec":
        pytest.importorskip("fsspec", reason="the extra 'replicate' is not installed")
    url = str(tmp_path / "copy") if kind == "directory" else f"memory://versions/{tmp_path.name}"
    copier = Replicator(owner.directory, open_store(url))
    copier.copy()
    copier.copy_versions()
    restore(url, tmp_path / "new")
    before, after = Versions(owner.directory), Versions(tmp_path / "new")
    assert after.names() == before.names()
    assert (after.read("v1"), after.read("v2")) == (b"one", b"two")
    assert (after.state.current, after.state.previous, after.state.events) == ("v2", "v1", before.state.events)
    assert after.state.candidate is None and before.state.candidate is not None


def test_a_restore_into_the_same_directory_keeps_its_versions(tmp_path, owner):
    copier = Replicator(owner.directory, copy_of(tmp_path))
    copier.copy()
    copier.copy_versions()
    versions = Versions(owner.directory)
    versions.save("v3", b"three")
    owner.close()
    restore(tmp_path / "copy", owner.directory)
    again = Versions(owner.directory)
    assert again.read("v3") == b"three" and again.state == versions.state


def test_only_what_changed_is_copied_and_what_is_unused_is_deleted(tmp_path, owner):
    store = RecordingStore(copy_of(tmp_path))
    copier = VersionCopier(owner.directory, store, 1)
    copier.copy()
    assert len(store.put_names) == 3 and n_files(store) == 2
    copier.copy()
    assert len(store.put_names) == 3
    versions = Versions(owner.directory)
    versions.save("v3", b"three")
    versions.delete("v1")
    copier.copy()
    assert len(store.put_names) == 5 and n_files(store) == 2
    assert fetch(store, tmp_path / "new") == {"v2": b"two", "v3": b"three"}
    # After a restart the files are in the copy already, and only the list of the new epoch is written.
    VersionCopier(owner.directory, store, 2).copy()
    assert store.put_names[5:] == ["versions/lists/00000002"] and store.names("versions/lists") == ["00000002"]
    for version in versions.names():
        if version.name != "v2":
            versions.delete(version.name)
    versions.end_candidate()
    versions.delete("v2")
    VersionCopier(owner.directory, store, 3).copy()
    assert n_files(store) == 0 and fetch(store, tmp_path / "none") == {}


def test_without_versions_nothing_is_written(tmp_path):
    store = copy_of(tmp_path)
    VersionCopier(tmp_path, store, 1).copy()
    fetch_versions(store, tmp_path / "new")
    assert store.names("versions") == [] and not (tmp_path / "new").exists()


def test_a_former_owner_does_not_change_the_list_of_the_new_one(tmp_path, owner):
    store = copy_of(tmp_path)
    former = VersionCopier(owner.directory, store, 1)
    former.copy()
    Versions(tmp_path / "other").save("v9", b"nine")
    VersionCopier(tmp_path / "other", store, 2).copy()
    Versions(owner.directory).save("late", b"late")
    former.copy()  # must neither change the new owner's list nor delete its files
    assert fetch(store, tmp_path / "new") == {"v9": b"nine"}


def test_a_standby_has_the_versions_at_the_start_and_when_it_takes_over(tmp_path, owner):
    store = copy_of(tmp_path)
    copier = Replicator(owner.directory, store)
    copier.copy()
    copier.copy_versions()
    standby = Follower(tmp_path / "standby", store)
    assert [version.name for version in Versions(tmp_path / "standby").names()] == ["v2", "v1"]
    Versions(owner.directory).save("v3", b"three")
    copier.copy_versions()
    standby.take_over()
    assert Versions(tmp_path / "standby").read("v3") == b"three"
    standby.host.close()


@pytest.mark.parametrize("content", [b"{", b'{"current":"\xff"}'], ids=["torn", "not UTF-8"])
def test_versions_are_copied_although_their_list_is_damaged(tmp_path, owner, content):
    (owner.directory / "versions" / "state.json").write_bytes(content)
    store = copy_of(tmp_path)
    copier = Replicator(owner.directory, store)
    copier.copy()
    copier.copy_versions()
    assert len(store.names("versions/files")) == 2


@pytest.mark.parametrize("folder", ["files", "lists"])
@pytest.mark.parametrize("content", [None, b"not the bytes that were written"])
def test_damaged_versions_do_not_prevent_a_restore(tmp_path, owner, folder, content, caplog):
    store = copy_of(tmp_path)
    copier = Replicator(owner.directory, store)
    copier.copy()
    copier.copy_versions()
    for name in store.names(f"versions/{folder}")[:1]:
        path = f"versions/{folder}/{name}"
        store.delete(path) if content is None else store.put(path, content)
    with caplog.at_level(logging.WARNING):
        assert restore(tmp_path / "copy", tmp_path / "new").examples == 2
    names = {version.name for version in Versions(tmp_path / "new").names()}
    assert len(names) == (1 if folder == "files" else 0)
    # Without its list, a copy looks like the copy of a model without versions, so nothing is logged.
    if folder == "files" or content is not None:
        assert "no intact file of the version" in caplog.text or "are not restored" in caplog.text
