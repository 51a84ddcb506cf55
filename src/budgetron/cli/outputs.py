"""Output files: checked before the work begins, then written completely or not at all.

An existing file is replaced only with --overwrite, so that a repeated command from the shell history cannot destroy a
model. The model that a command reads may be saved under its own name without --overwrite. A file is written under a
temporary name in the same folder and renamed when it is complete.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from budgetron.errors import input_error


def check(
    who: str, option: str, path: str | None, overwrite: bool, own: str | None = None, devices: bool = False
) -> None:
    """Raise an error before the run if the output could not be written after it.

    `own` is a file that may be replaced without --overwrite: the model that is resumed or calibrated. `devices` allows
    pipes and devices.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise input_error(who, option, "a file", f"{path!r}, which is a folder")
    if target.exists() and not (target.is_file() or devices):
        raise input_error(who, option, "a regular file", f"{path!r}, which is a device or a pipe")
    folder = target.absolute().parent
    if not folder.is_dir():
        raise input_error(who, option, "in a folder that exists", repr(path), f"Create it with mkdir -p {folder}.")
    if not os.access(folder, os.W_OK):
        raise input_error(who, option, "in a folder you may write to", repr(path))
    # `samefile` also recognises a symbolic link to `own`.
    is_own = own is not None and Path(own).exists() and target.exists() and target.samefile(own)
    if target.exists() and target.is_file() and not (overwrite or is_own):
        raise input_error(who, option, "a new file", f"{path!r}, which exists", "Replace it with --overwrite.")


def check_folder(who: str, option: str, path: str | None, overwrite: bool, own: str | None = None) -> None:
    """Raise an error before the run if a sharded model could not be saved to this folder after it.

    `own` is a folder that may be replaced without --overwrite: the model that is resumed.
    """
    if path is None or "://" in path:
        return
    from budgetron.distributed import is_in_shards, is_live

    target = Path(path)
    if target.exists() and not target.is_dir():
        raise input_error(who, option, "a folder, because the model is in shards", f"{path!r}, which is a file")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise input_error(who, option, "in a folder that exists", repr(path), f"Create it with mkdir -p {parent}.")
    if not os.access(target if target.exists() else parent, os.W_OK):
        raise input_error(who, option, "in a folder you may write to", repr(path))
    if not target.exists() or not any(target.iterdir()):
        return
    if not is_in_shards(path) or is_live(path):
        raise input_error(who, option, "a new folder, or one that --save wrote", f"{path!r}, which is neither")
    is_own = own is not None and Path(own).exists() and target.samefile(own)
    if not (overwrite or is_own):
        raise input_error(who, option, "a new folder", f"{path!r}, which holds a model", "Replace it with --overwrite.")


@contextmanager
def text_file(path: str | None) -> Iterator[IO[str]]:
    """Open standard output, or a file that appears under its name only when it is complete."""
    if path is None or path == "-":
        yield sys.stdout
        return
    # A symbolic link stays a link: its target is replaced.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # renaming would replace a pipe or a device by a file
        with open(target, "w", newline="", encoding="utf-8") as file:
            yield file
        return
    # In the same folder, because `os.replace` is atomic only within one file system.
    temporary = target.parent / f".budgetron-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "x", newline="", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure could leave an empty file under the final name
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
