"""Where the copy of a host (a durable model with its log) is stored: a directory, or any URL that fsspec opens.

Such URLs begin with s3://, gs://, sftp:// or memory://, for example.

Objects never change, with two exceptions per epoch. The small object `head` says how far the copy goes, and is replaced
with every copy. The list of model versions is replaced when the versions change. A store must guarantee two things: a
reader sees an object completely or not at all, and a listing shows every finished write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from budgetron.durable.errors import DiskRefused
from budgetron.durable.ownership import TEMPORARY, make_private
from budgetron.errors import BudgetronError, import_extra
from budgetron.persist.disk import replace_file


class Store(Protocol):
    """Objects by name. Names have folders, separated by slashes."""

    @property
    def url(self) -> str: ...

    def put(self, name: str, content: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if there is none."""

    def names(self, folder: str) -> list[str]:
        """The names of objects and folders in a folder, sorted; an empty list if there is no such folder."""

    def delete(self, name: str) -> None: ...

    def under(self, folder: str) -> Store:
        """A store that contains only the objects of a folder."""


def open_store(url: str | os.PathLike[str]) -> Store:
    """The store at a path or URL. Paths and file:// URLs do not need fsspec."""
    text = os.fspath(url)
    if "://" not in text:
        return DirectoryStore(Path(text).absolute())
    if text.startswith("file://"):
        return DirectoryStore(Path(text.removeprefix("file://")).absolute())
    fsspec = import_extra("copy", "fsspec", "replicate")
    shown_url = re.sub(r"//[^@/]*@", "//", text.rstrip("/"))  # messages must not contain a password
    with _errors(shown_url):
        filesystem, root = fsspec.core.url_to_fs(text)
    return FsspecStore(filesystem, root.rstrip("/"), shown_url)


def is_copy(source: str | os.PathLike[str]) -> bool:
    """Whether a path or URL is a copy, as opposed to a backup or the directory of a host.

    Only copies are stored at URLs. A path is a copy if it has the folder `epochs`.
    """
    text = os.fspath(source)
    return "://" in text or (Path(text) / "epochs").is_dir()


class DirectoryStore:
    """A local or mounted directory. Objects are forced to disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.url = str(root)

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        with _errors(self.url):
            make_private(path.parent)  # creates the folder if it does not exist
            replace_file(path, content)

    def get(self, name: str) -> bytes | None:
        with _errors(self.url):
            try:
                return (self._root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str) -> list[str]:
        with _errors(self.url):
            try:
                entries = os.listdir(self._root / folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in entries if not name.startswith(TEMPORARY))

    def delete(self, name: str) -> None:
        path = self._root / name
        with _errors(self.url):
            path.unlink(missing_ok=True)
            with suppress(OSError):  # removes an empty folder; rmdir fails while the folder has other objects
                path.parent.rmdir()

    def under(self, folder: str) -> DirectoryStore:
        return DirectoryStore(self._root / folder)


class FsspecStore:
    """A folder of an fsspec file system."""

    def __init__(self, filesystem: Any, root: str, url: str) -> None:
        self._filesystem, self._root, self.url = filesystem, root, url

    def put(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        with _errors(self.url):
            self._filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._filesystem.pipe_file(path, content)

    def get(self, name: str) -> bytes | None:
        with _errors(self.url):
            try:
                return bytes(self._filesystem.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        with _errors(self.url):
            self._filesystem.invalidate_cache()  # another process writes to the same folder
            try:
                paths = self._filesystem.ls(f"{self._root}/{folder}".rstrip("/"), detail=False)
            except FileNotFoundError:
                return []
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def delete(self, name: str) -> None:
        with _errors(self.url), suppress(FileNotFoundError):
            self._filesystem.rm_file(f"{self._root}/{name}")

    def under(self, folder: str) -> FsspecStore:
        return FsspecStore(self._filesystem, f"{self._root}/{folder}", f"{self.url}/{folder}")


@contextmanager
def _errors(url: str) -> Iterator[None]:
    """Translate the errors of a store. Catches all exceptions, because fsspec passes on those of many libraries."""
    try:
        yield
    except (BudgetronError, FileNotFoundError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DiskRefused(
            f"copy: cannot read or write {url!r}: {reason}. Check the address, the permissions and the free space."
        ) from error
