"""Read files with a known SHA-256 from a local folder, or download them once into a cache. Called by `registry`.

Files are read from the folder that the caller names, otherwise from the folder in $BUDGETRON_DATA, otherwise from the
cache. Missing files are downloaded only into the cache; a folder of the user is never written to. The hash of a file is
checked at every read. A download goes to a temporary file, which gets its final name only after it is verified, so a
failed download leaves nothing behind.

    $BUDGETRON_CACHE    another folder for the cache
    $BUDGETRON_MIRROR   another URL to download from, with the files under the same names
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
from budgetron.errors import OperationalError

FOLDER_VARIABLE = "BUDGETRON_DATA"
CACHE_VARIABLE = "BUDGETRON_CACHE"
MIRROR_VARIABLE = "BUDGETRON_MIRROR"
# The limit for connecting, and for each read from the connection. A slow download may take longer in total.
_TIMEOUT_SECONDS = 30.0


class DataUnavailable(OperationalError):
    """The data are not on this machine and could not be downloaded."""


class DataCorrupt(OperationalError):
    """The data differ from the expected version."""


@dataclass(frozen=True)
class RemoteFile:
    """One file: its name below a data folder, the URL of the public copy, and its hash."""

    name: str
    url: str
    sha256: str


def github_file(name: str, repository: str, commit: str, path: str, sha256: str) -> RemoteFile:
    """Describe a file of a public GitHub repository at a fixed commit."""
    return RemoteFile(name, f"https://raw.githubusercontent.com/{repository}/{commit}/{path}", sha256)


def own_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the user's folder of data files: the given folder, otherwise $BUDGETRON_DATA, otherwise None."""
    path = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    return Path(path).expanduser() if path else None


def cache_folder() -> Path:
    """Return the folder for downloads."""
    path = os.environ.get(CACHE_VARIABLE)
    return Path(path).expanduser() if path else Path(import_extra("pooch").os_cache("budgetron"))


def read_verified(file: RemoteFile, folder: Path) -> bytes:
    """Return the content of a file after checking its hash."""
    path = folder / file.name
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise DataUnavailable(
            f"{file.name} cannot be read in {folder} ({type(problem).__name__}). Copy it there from {file.url}, or "
            f"download it by giving no folder and unsetting ${FOLDER_VARIABLE}."
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise DataCorrupt(
            f"{file.name} in {folder} should have the SHA-256 {file.sha256[:16]}…, but its {len(content):,} bytes have "
            f"{digest[:16]}…. It is damaged, incomplete or another version: remove it and fetch it again."
        )
    return content


def is_intact(file: RemoteFile, folder: Path) -> bool:
    """Return whether the folder contains the file with the right hash."""
    try:
        read_verified(file, folder)
    except OperationalError:
        return False
    return True


def download(files: Sequence[RemoteFile], folder: Path, progress: bool = False) -> None:
    """Download the files that are missing or damaged in the folder."""
    missing = [file for file in files if not is_intact(file, folder)]
    if not missing:
        return
    pooch = import_extra("pooch")
    from requests.exceptions import RequestException  # comes with pooch

    urls = {file.name: mirrored(file.name, file.url) for file in missing}
    hashes = {file.name: f"sha256:{file.sha256}" for file in missing}
    # pooch downloads to a temporary file, checks the hash, and renames it.
    fetcher = pooch.create(path=folder, base_url="", registry=hashes, urls=urls, retry_if_failed=1)
    for file in missing:
        try:
            with _bar(file.name, progress) as bar:
                downloader = pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT_SECONDS)
                fetcher.fetch(file.name, downloader=downloader)
        except RequestException as problem:
            raise _unreachable_error(file, urls[file.name], problem) from None
        except ValueError:  # pooch raises this for a wrong hash
            raise DataCorrupt(
                f"{file.name} from {urls[file.name]} should have the SHA-256 {file.sha256[:16]}…, but the download "
                "differs. Nothing was kept. Try again; if the error persists, the copy at this URL has changed."
            ) from None
        except OSError as problem:
            raise DataUnavailable(
                f"{file.name} could not be written to the cache: {problem}. "
                f"Name a writable folder in ${CACHE_VARIABLE}."
            ) from None


def import_extra(module: str) -> Any:
    """Import a module of the extra `data` when it is first needed."""
    return errors.import_extra("data", module, "data")


def mirrored(name: str, url: str) -> str:
    """Return the URL to download a file from: on the mirror if one is set, otherwise the file's own URL."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    return f"{mirror.rstrip('/')}/{name}" if mirror else url


def _unreachable_error(file: RemoteFile, url: str, problem: Exception) -> DataUnavailable:
    answer = getattr(getattr(problem, "response", None), "status_code", type(problem).__name__)
    return DataUnavailable(
        f"{file.name} is not on this machine and could not be downloaded from {url} ({answer} from "
        f"{urlsplit(url).netloc}). Nothing was kept. Try again when online; or put the file as {file.name} in a folder "
        f"and name the folder by folder=, --from or ${FOLDER_VARIABLE}; or name a mirror in ${MIRROR_VARIABLE}."
    )


@contextmanager
def _bar(name: str, visible: bool) -> Iterator[Any]:
    """Yield a progress bar with the interface that pooch expects: `total`, update, reset and close."""
    if not visible:
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield _Bar(display, display.add_task(name, total=None))


class _Bar:
    """A rich progress bar with the interface of tqdm, which pooch expects."""

    def __init__(self, display: Any, task: Any) -> None:
        self._display, self._task = display, task

    @property
    def total(self) -> float | None:
        total: float | None = self._display.tasks[0].total
        return total

    @total.setter
    def total(self, size: int) -> None:
        # The size is 0 if the server does not state it; then the bar only moves, without a percentage.
        self._display.update(self._task, total=size or None, completed=0)

    def update(self, step: int) -> None:
        self._display.advance(self._task, step)

    def reset(self) -> None:
        self._display.update(self._task, completed=0)

    def close(self) -> None:
        self._display.refresh()
