"""The named versions of a model in its copy: `Replicator` writes them, `restore` and `Follower` read them.

    versions/files/SHA256     a model file; its name is its checksum
    versions/lists/EPOCH      the names of the versions and their files, and `state.json`; replaced as a whole

Each owner writes its own list, under its epoch. Readers use the list of the highest epoch, so a former owner cannot
change the list of the new one. A file is written before the list names it, and deleted after a new list omits it.
The candidate is not copied, because it refers to record numbers of the log, which change in a restore.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from budgetron.durable.errors import storage_errors
from budgetron.durable.ownership import make_private
from budgetron.durable.replication.objects import VERSION, decode_object, encode_object
from budgetron.durable.replication.store import Store
from budgetron.durable.versions import FOLDER, STATE, SUFFIX, UNDECODABLE, VersionState
from budgetron.errors import StorageError
from budgetron.persist.disk import replace_file

_FILES, _LISTS = "versions/files", "versions/lists"
_logger = logging.getLogger(__name__)


class CopiedFile(msgspec.Struct, frozen=True):
    sha256: str
    at: int  # when it was saved, in nanoseconds since 1970


class VersionList(msgspec.Struct, frozen=True):
    """The files by name, and the state of the versions.

    `state` is the content of `state.json` without the candidate, or None if that file is missing or damaged.
    """

    version: int
    files: dict[str, CopiedFile]
    state: VersionState | None


class VersionCopier:
    """Copies the versions of one directory, as the owner with this epoch."""

    def __init__(self, directory: Path, store: Store, epoch: int) -> None:
        self._folder, self._store, self._epoch = directory / FOLDER, store, epoch
        self._copied: dict[str, tuple[int, int]] | None = None  # size and time of each file at the last copy
        self._checksums: dict[tuple[str, int, int], str] = {}

    def copy(self) -> None:
        """Copy the changes. The caller has checked that it owns the copy."""
        with suppress(FileNotFoundError):  # a version was deleted meanwhile: the next call copies the others
            files = self._files()
            if files != self._copied:
                self._copy(files)

    def _copy(self, sources: dict[str, tuple[int, int]]) -> None:
        """Copy the new files, write the list, and delete the files that it does not name."""
        if not sources and not self._store.names(_LISTS):  # this model has no versions
            return
        present, files, state = set(self._store.names(_FILES)), {}, None
        for name, (size, at) in sources.items():
            if name == STATE:
                with suppress(*UNDECODABLE):  # it is damaged: the service reports that when it starts
                    state = msgspec.json.decode((self._folder / name).read_bytes(), type=VersionState)
                    state = msgspec.structs.replace(state, candidate=None, promoting=None)
                continue
            sha256 = self._checksums.get((name, size, at))
            if sha256 not in present:
                content = (self._folder / name).read_bytes()
                sha256 = hashlib.sha256(content).hexdigest()
                if sha256 not in present:
                    self._store.put(f"{_FILES}/{sha256}", content)
                self._checksums[name, size, at] = sha256
            files[name] = CopiedFile(sha256, at)
        self._store.put(_list_path(self._epoch), encode_object(VersionList(VERSION, files, state)))
        self._copied = sources
        self._delete_unused(present - {file.sha256 for file in files.values()})

    def _delete_unused(self, unused: set[str]) -> None:
        """Delete files and lists that are no longer needed, unless another process has taken over."""
        epochs = [int(name) for name in self._store.names(_LISTS) if name.isdecimal()]
        if max(epochs) > self._epoch:  # another process has taken over: it may use these files
            return
        for sha256 in unused:
            self._store.delete(f"{_FILES}/{sha256}")
        for epoch in epochs:
            if epoch < self._epoch:
                self._store.delete(_list_path(epoch))

    def _files(self) -> dict[str, tuple[int, int]]:
        """The size and time of each file that is copied."""
        files = {}
        if self._folder.is_dir():
            for path in [*self._folder.glob(f"[!.]*{SUFFIX}"), self._folder / STATE]:
                if path.exists():
                    status = path.stat()
                    files[path.name] = (status.st_size, status.st_mtime_ns)
        return files


def fetch_versions(store: Store, directory: Path) -> None:
    """Bring the versions of a directory to the state of the copy. Versions that the copy does not have are kept.

    Damaged or missing files are logged and skipped, because a lost version must not prevent restoring the labels.
    """
    try:
        epochs = [int(name) for name in store.names(_LISTS) if name.isdecimal()]
        if epochs:
            path = _list_path(max(epochs))
            _fetch(store, decode_object(store.get(path), VersionList, store.url, path), directory / FOLDER)
    except StorageError as error:
        _logger.warning("The versions of the copy are not restored. %s", error)


def _fetch(store: Store, version_list: VersionList, folder: Path) -> None:
    """Write the versions of a list to a folder."""
    with storage_errors(folder / STATE):
        make_private(folder)
        for name, file in version_list.files.items():
            target = folder / Path(name).name
            if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == file.sha256:
                continue
            content = store.get(f"{_FILES}/{file.sha256}")
            if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
                _logger.warning("The copy %s has no intact file of the version %s.", store.url, name)
                continue
            replace_file(target, content)
            os.utime(target, ns=(file.at, file.at))
        if version_list.state is not None:
            replace_file(folder / STATE, msgspec.json.encode(version_list.state))


def _list_path(epoch: int) -> str:
    return f"{_LISTS}/{epoch:08d}"
