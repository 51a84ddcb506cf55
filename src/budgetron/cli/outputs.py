"""Files that a command writes: asked about before the work, written whole or not at all.

An existing file is not replaced unless --overwrite says so: a model that learned for a week is easily lost to an arrow
key. A file is written beside its place and moved there when it is complete.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from budgetron.errors import refuse


def check(
    who: str, option: str, path: str | None, overwrite: bool, own: str | None = None, devices: bool = False
) -> None:
    """Refuse now what could not be written at the end.

    `own` is a file that may be replaced without asking; `devices` says that a pipe or a device will do.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise refuse(who, option, "a file", f"{path!r}, which is a folder")
    if target.exists() and not (target.is_file() or devices):
        raise refuse(who, option, "a regular file", f"{path!r}, which is none")
    folder = target.absolute().parent
    if not folder.is_dir():
        raise refuse(who, option, "in a folder that exists", repr(path), f"mkdir -p {folder} makes it.")
    if not os.access(folder, os.W_OK):
        raise refuse(who, option, "in a folder you may write to", repr(path))
    mine = own is not None and Path(own).exists() and target.exists() and target.samefile(own)
    if target.exists() and target.is_file() and not (overwrite or mine):
        raise refuse(who, option, "a new file", f"{path!r}, which exists", "--overwrite replaces it.")


def check_folder(who: str, option: str, path: str | None, overwrite: bool, own: str | None = None) -> None:
    """Refuse now a place where a model in shards could not be written at the end."""
    if path is None or "://" in path:
        return
    from budgetron.distributed import is_in_shards, is_live

    target = Path(path)
    if target.exists() and not target.is_dir():
        raise refuse(who, option, "a folder, where the model is in shards", f"{path!r}, which is a file")
    above = target.absolute().parent
    if not above.is_dir():
        raise refuse(who, option, "in a folder that exists", repr(path), f"mkdir -p {above} makes it.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not is_in_shards(path) or is_live(path):
        raise refuse(who, option, "a new folder, or one that --save wrote", f"{path!r}, which has something else")
    mine = own is not None and Path(own).exists() and target.samefile(own)
    if not (overwrite or mine):
        raise refuse(who, option, "a new folder", f"{path!r}, which has a model", "--overwrite replaces it.")


@contextmanager
def text_file(path: str | None) -> Iterator[IO[str]]:
    """Where text goes: standard output, or a file that appears when it is complete."""
    if path is None or path == "-":
        yield sys.stdout
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a pipe or a device takes what comes
        with open(target, "w", newline="", encoding="utf-8") as file:
            yield file
        return
    beside = target.parent / f".budgetron-{secrets.token_hex(8)}.tmp"
    try:
        with open(beside, "x", newline="", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
