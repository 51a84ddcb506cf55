"""Named versions of a model: model files in the folder `versions` of a host's directory, and which one is in use.

    versions/NAME.budgetron        a model file, as `save` writes it; never changed
    versions/candidate-POSITION    the candidate, as it was after record POSITION of the host
    versions/state.json            the version in use, the version before it, the candidate, and past changes

A candidate is a version that learns beside the model in use, and may answer for some of the tasks. A file is written
before `state.json` names it. The file of a candidate is deleted after `state.json` names another candidate or none.
`state.json` is replaced atomically, so a crash leaves the state before or after a change.

The service uses this module (`budgetron.service.model`). Models are only bytes here.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from budgetron.durable.errors import DamagedLog, storage_errors
from budgetron.durable.ownership import make_private
from budgetron.errors import InputError, input_error, shown
from budgetron.persist.disk import replace_file

MAX_VERSIONS = 100
_MAX_AUTOMATIC = 5  # automatically saved versions, of models that were replaced
_MAX_EVENTS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FOLDER, STATE, SUFFIX = "versions", "state.json", ".budgetron"
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)  # what msgspec raises for a damaged `state.json`
AUTOMATIC = "replaced-"


class NoVersion(InputError):
    """There is no version of this name, no candidate, or nothing to go back to."""


class CandidateState(msgspec.Struct, frozen=True):
    """A candidate: the version it began as, the share of tasks it answers, and the last record that it has learned."""

    version: str
    share: float
    position: int
    began: float  # seconds since 1970


class Event(msgspec.Struct, frozen=True):
    """A change of the model in use. `action` is activate, rollback or promote; the old model is saved as `replaced`."""

    at: float
    action: str
    version: str
    replaced: str
    position: int
    who: str = ""


class VersionState(msgspec.Struct, frozen=True):
    """The content of `state.json`.

    `promoting` is None, except during a promotion: then it is the host's position when the promotion began.
    """

    current: str | None = None
    previous: str | None = None
    candidate: CandidateState | None = None
    promoting: int | None = None
    events: tuple[Event, ...] = ()


class VersionInfo(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    at: float


def automatic_name(position: int) -> str:
    """Return the name of the version that a replacement at this position of the host saves."""
    return f"{AUTOMATIC}{position}"


class Versions:
    """The versions of one host."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self.state = VersionState()
        content = self._read(STATE)
        if content is not None:
            try:
                self.state = msgspec.json.decode(content, type=VersionState)
            except UNDECODABLE as error:
                raise DamagedLog(
                    f"versions: {self._folder / STATE} is damaged: {error}. Delete the file. The versions "
                    "stay, but the candidate and the list of past replacements are lost.",
                    str(error),
                ) from None

    # ---- files

    def names(self) -> list[VersionInfo]:
        """All versions, the newest first."""
        with storage_errors(self._folder / STATE):
            files = [path for path in self._folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")]
            stats = [path.stat() for path in files]
            versions = [VersionInfo(path.name.removesuffix(SUFFIX), stat.st_size, stat.st_mtime)
                        for path, stat in zip(files, stats, strict=True)]  # fmt: skip
        return sorted(versions, key=lambda version: (-version.at, version.name))

    def save(self, name: str, content: bytes) -> None:
        """Store a model file under a new name. Saving the same content under the same name again does nothing."""
        if not _NAME.fullmatch(name) or name == STATE or name.startswith(("candidate-", AUTOMATIC)):
            accepted = (
                '1 to 64 letters, digits, ".", "_" and "-" that begin with a letter or digit, but not state.json, '
                f"candidate-… or {AUTOMATIC}…"
            )
            raise input_error("versions", "the name", accepted, shown(name))
        if not self._is_saved(name, content):
            if len([version for version in self.names() if not version.name.startswith(AUTOMATIC)]) >= MAX_VERSIONS:
                raise InputError(f"versions: there are {MAX_VERSIONS} versions, the maximum. Delete some first.")
            self._write(name + SUFFIX, content)

    def _is_saved(self, name: str, content: bytes) -> bool:
        """Whether a version is saved already. Raises an error if a version of this name has other content."""
        before = self._read(name + SUFFIX)
        if before is not None and before != content:
            raise InputError(
                f"versions: the version {shown(name)} exists, with other content. Choose another name, or delete that "
                "version first."
            )
        return before is not None

    def read(self, name: str) -> bytes:
        content = self._read(name + SUFFIX) if _NAME.fullmatch(name) else None
        if content is None:
            names = ", ".join(version.name for version in self.names()[:10]) or "none"
            raise NoVersion(f"versions: there is no version {shown(name)}. Versions: {names}.")
        return content

    def delete(self, name: str) -> None:
        self.read(name)
        candidate = self.state.candidate
        if candidate is not None and candidate.version == name:
            raise InputError(f"versions: {shown(name)} is the candidate. End the candidate before deleting it.")
        with storage_errors(self._folder / STATE):
            (self._folder / (name + SUFFIX)).unlink(missing_ok=True)

    # ---- the model in use

    def save_replaced(self, content: bytes, position: int) -> str:
        """Save the model that is about to be replaced. Returns the name of the version. Only the last few are kept.

        These versions do not count towards `MAX_VERSIONS`, so that a model is never replaced without a way back.
        """
        name = automatic_name(position)
        old = [version.name for version in self.names() if version.name.startswith(AUTOMATIC) and version.name != name]
        for version in old[_MAX_AUTOMATIC - 1 :]:
            if version != self.state.previous:
                with suppress(InputError):
                    self.delete(version)
        if not self._is_saved(name, content):
            self._write(name + SUFFIX, content)
        return name

    def replaced(self, action: str, version: str, saved: str, position: int, who: str) -> None:
        """Note that `version` is now the model in use, and that the model before it is saved as `saved`."""
        event = Event(time.time(), action, version, saved, position, who)
        events = (*self.state.events, event)[-_MAX_EVENTS:]
        self.set_state(current=version, previous=saved, events=events)

    def set_state(self, **changes: object) -> None:
        state = msgspec.structs.replace(self.state, **changes)
        self._write(STATE, msgspec.json.encode(state))
        self.state = state

    # ---- the candidate

    def save_candidate(self, content: bytes, candidate: CandidateState) -> None:
        """Store the candidate as it is after a record of the host."""
        self._write(f"candidate-{candidate.position}", content)
        self.set_state(candidate=candidate)
        self._delete_candidates(except_position=candidate.position)

    def read_candidate(self) -> bytes | None:
        candidate = self.state.candidate
        return None if candidate is None else self._read(f"candidate-{candidate.position}")

    def end_candidate(self) -> None:
        self.set_state(candidate=None, promoting=None)
        self._delete_candidates()

    def _delete_candidates(self, except_position: int = -1) -> None:
        with storage_errors(self._folder / STATE):
            for path in self._folder.glob("candidate-*"):
                if path.name != f"candidate-{except_position}":
                    path.unlink(missing_ok=True)

    # ---- reading and writing

    def _read(self, name: str) -> bytes | None:
        with storage_errors(self._folder / name):
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                return None

    def _write(self, name: str, content: bytes) -> None:
        with storage_errors(self._folder / name):
            make_private(self._folder)
            replace_file(self._folder / name, content)
