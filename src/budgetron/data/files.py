"""Files with a known SHA-256: read from a folder one already has, or downloaded once into a cache.

    given folder  →  else the folder in $BUDGETRON_DATA  →  else the cache, which downloads what it lacks

Every read is verified, and the bytes that were verified are the bytes that are parsed. A download goes to a
temporary file, is verified there and only then takes its name, so a bad one leaves nothing behind.

    $BUDGETRON_CACHE    another place for the cache
    $BUDGETRON_MIRROR   another place to download from: a URL under which the files have their names of here
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from budgetron import errors
from budgetron.errors import OperationalError, refusal

FOLDER_VARIABLE = "BUDGETRON_DATA"
CACHE_VARIABLE = "BUDGETRON_CACHE"
MIRROR_VARIABLE = "BUDGETRON_MIRROR"
_SECONDS_TO_ANSWER = 30.0


class DataUnavailable(OperationalError):
    """The data are not on this machine and could not be brought here."""


class DataCorrupt(OperationalError):
    """The data are here but are not what they should be."""


@dataclass(frozen=True)
class RemoteFile:
    """One file: its name below any data folder, where the public copy is, and what it must hash to."""

    name: str
    url: str
    sha256: str


def github_file(name: str, repository: str, commit: str, path: str, sha256: str) -> RemoteFile:
    """A file of a public GitHub repository, pinned by commit."""
    return RemoteFile(name, f"https://raw.githubusercontent.com/{repository}/{commit}/{path}", sha256)


def own_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder of files one already has: the one given, else $BUDGETRON_DATA, else none."""
    chosen = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


def cache_folder() -> Path:
    """Where downloads are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path(import_extra("pooch").os_cache("budgetron"))


def read(file: RemoteFile, folder: Path) -> bytes:
    """The content of a file, verified."""
    path = folder / file.name
    try:
        content = path.read_bytes()
    except OSError as problem:
        accepted = f"a readable file in {folder}"
        remedy = (
            f"Copy it there from {file.url}, or give no folder and unset ${FOLDER_VARIABLE} to download it."
        )
        raise DataUnavailable(refusal("data", file.name, accepted, type(problem).__name__, remedy)) from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        came = f"{len(content):,} bytes with {found[:16]}… in {folder}"
        remedy = "The file is damaged, cut short or another version: remove it and fetch it again."
        raise _corrupt(file, came, remedy)
    return content


def is_intact(file: RemoteFile, folder: Path) -> bool:
    """Whether the file is in the folder, byte for byte."""
    try:
        read(file, folder)
    except OperationalError:
        return False
    return True


def download(files: Sequence[RemoteFile], folder: Path, progress: bool = False) -> None:
    """Bring into the folder those files that it lacks or holds damaged."""
    missing = [file for file in files if not is_intact(file, folder)]
    if not missing:
        return
    pooch = import_extra("pooch")
    from requests.exceptions import RequestException  # comes with pooch

    urls = {file.name: _url(file) for file in missing}
    hashes = {file.name: f"sha256:{file.sha256}" for file in missing}
    shelf = pooch.create(path=folder, base_url="", registry=hashes, urls=urls, retry_if_failed=1)
    for file in missing:
        try:
            with _bar(file.name, progress) as bar:
                downloader = pooch.HTTPDownloader(progressbar=bar, timeout=_SECONDS_TO_ANSWER)
                shelf.fetch(file.name, downloader=downloader)
        except RequestException as problem:
            raise _unreachable(file, urls[file.name], problem) from None
        except ValueError:
            came = f"other bytes from {urls[file.name]}"
            remedy = "Nothing was kept. Try again; if it persists the copy there is not the pinned one."
            raise _corrupt(file, came, remedy) from None
        except OSError as problem:
            accepted, remedy = "written to the cache", f"Name a writable folder in ${CACHE_VARIABLE}."
            raise DataUnavailable(refusal("data", file.name, accepted, str(problem), remedy)) from None


def import_extra(module: str) -> Any:
    """A module of the extra `data`, imported when first needed."""
    return errors.import_extra("data", module, "data")


def _url(file: RemoteFile) -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    return f"{mirror.rstrip('/')}/{file.name}" if mirror else file.url


def _corrupt(file: RemoteFile, came: str, remedy: str) -> DataCorrupt:
    return DataCorrupt(refusal("data", file.name, f"the file with SHA-256 {file.sha256[:16]}…", came, remedy))


def _unreachable(file: RemoteFile, url: str, problem: Exception) -> DataUnavailable:
    accepted = f"on this machine or downloadable from {url}"
    answer = getattr(getattr(problem, "response", None), "status_code", type(problem).__name__)
    remedy = (
        f"Nothing was kept. Try again when online; or put the file as {file.name} in a folder of your own "
        f"and name it by folder=, --from or ${FOLDER_VARIABLE}; or name a mirror in ${MIRROR_VARIABLE}."
    )
    return DataUnavailable(
        refusal("data", file.name, accepted, f"{answer} from {urlsplit(url).netloc}", remedy)
    )


@contextmanager
def _bar(name: str, shown: bool) -> Iterator[Any]:
    """A progress bar as pooch drives one: it sets `total` and calls update, reset and close."""
    if not shown:
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield _Bar(display, display.add_task(name, total=None))


class _Bar:
    def __init__(self, display: Any, task: Any) -> None:
        self._display, self._task = display, task

    @property
    def total(self) -> float | None:
        total: float | None = self._display.tasks[0].total
        return total

    @total.setter
    def total(self, size: int) -> None:
        self._display.update(self._task, total=size or None, completed=0)

    def update(self, step: int) -> None:
        self._display.advance(self._task, step)

    def reset(self) -> None:
        self._display.update(self._task, completed=0)

    def close(self) -> None:
        self._display.refresh()
