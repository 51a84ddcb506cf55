"""Read and write files in a folder, or under any URL that fsspec supports (s3://, gs://, memory://, …).

`save` and `load` of sharded models use it, in the coordinator and in the workers. In a folder and in an object store, a
file is written completely or not at all.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from budgetron.errors import InputFileMissing, MissingExtra, ModelFileError, error_message
from budgetron.persist import read_bytes, replace_file

MAX_BYTES = 2**34  # the largest file that is read from a folder


def write_file(target: str, name: str, content: bytes) -> str:
    """Write a file atomically and return its SHA-256."""
    if _is_url(target):
        filesystem, folder = _filesystem(target)
        filesystem.makedirs(folder, exist_ok=True)
        with filesystem.open(f"{folder}/{name}", "wb") as file:  # object stores show an object only once it is complete
            file.write(content)
    else:
        Path(target).mkdir(parents=True, exist_ok=True)
        replace_file(Path(target) / name, content)
    return sha256(content).hexdigest()


def read_file(source: str, name: str, who: str, digest: str | None = None) -> bytes:
    """Read a file and verify its SHA-256, if one is given. `who` is the class of the model, for messages."""
    try:
        if _is_url(source):
            filesystem, folder = _filesystem(source)
            content: bytes = filesystem.cat_file(f"{folder}/{name}")
        else:
            content = read_bytes(Path(source) / name, MAX_BYTES)
    except FileNotFoundError:
        raise InputFileMissing(
            f"{who}: {source!r} has no file {name!r}. Pass the folder or URL of a {who}."
        ) from None
    if digest is not None and sha256(content).hexdigest() != digest:
        raise ModelFileError(f"{who}: {name} in {source!r} does not match its checksum. Load another copy.")
    return content


def remove_other_models(target: str, keep: set[str]) -> None:
    """Delete the model files of earlier saves."""
    if _is_url(target):
        filesystem, folder = _filesystem(target)
        for path in filesystem.ls(folder, detail=False):
            name = str(path).rsplit("/", 1)[-1]
            if name.endswith(".budgetron") and name not in keep:
                filesystem.rm_file(path)
    else:
        for file in Path(target).glob("*.budgetron"):
            if file.name not in keep:
                file.unlink()


def _is_url(target: str) -> bool:
    return "://" in target


def _filesystem(target: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra(
            error_message("save and load", "the location", "a folder, or a URL if fsspec is installed", repr(target),
                          "Install it with pip install 'budgetron[ray]', or pass a folder.")
        ) from None  # fmt: skip
    filesystem, folder = url_to_fs(target)
    return filesystem, folder.rstrip("/")
