"""Files in a folder, or under any URL that fsspec knows (s3://, gs://, memory://, …)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from budgetron.errors import InputFileMissing, MissingExtra, ModelFileError, refusal
from budgetron.persist import read_bytes, replace_file

MOST_BYTES = 2**34  # of one file


def put(target: str, name: str, content: bytes) -> str:
    """Write a file; its SHA-256."""
    if _is_url(target):
        system, folder = _system(target)
        system.makedirs(folder, exist_ok=True)
        with system.open(f"{folder}/{name}", "wb") as file:  # an object is there when it is whole, or not at all
            file.write(content)
    else:
        Path(target).mkdir(parents=True, exist_ok=True)
        replace_file(Path(target) / name, content)
    return sha256(content).hexdigest()


def get(source: str, name: str, digest: str | None = None) -> bytes:
    """Read a file, and hold it against its digest where that is known."""
    try:
        if _is_url(source):
            system, folder = _system(source)
            content: bytes = system.cat_file(f"{folder}/{name}")
        else:
            content = read_bytes(Path(source) / name, MOST_BYTES)
    except FileNotFoundError:
        message = refusal("ShardedModel.load", "the place", f"one with a file {name!r}", repr(source))
        raise InputFileMissing(message) from None
    if digest is not None and sha256(content).hexdigest() != digest:
        raise ModelFileError(refusal("ShardedModel.load", name, "as it was saved", "other bytes", "Take another copy."))
    return content


def remove_others(target: str, keep: set[str]) -> None:
    """Remove the model files of earlier saves."""
    if _is_url(target):
        system, folder = _system(target)
        for path in system.ls(folder, detail=False):
            name = str(path).rsplit("/", 1)[-1]
            if name.endswith(".budgetron") and name not in keep:
                system.rm_file(path)
    else:
        for found in Path(target).glob("*.budgetron"):
            if found.name not in keep:
                found.unlink()


def _is_url(target: str) -> bool:
    return "://" in target


def _system(target: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra(
            refusal("ShardedModel", "a URL", "one of a file system, with fsspec installed", repr(target),
                    "pip install 'budgetron[ray]', or give a folder.")
        ) from None  # fmt: skip
    system, folder = url_to_fs(target)
    return system, folder.rstrip("/")
