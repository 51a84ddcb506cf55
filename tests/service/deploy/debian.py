"""Find tools such as nginx on the path, or unpack their Debian packages into build/ without installing anything."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def tool(name, package):
    """The path of a program. If it is not installed, and its package cannot be used, the test is skipped."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program:
        return program
    folder = ROOT / "build" / "debian" / package
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes must not unpack at the same time
        if not folder.exists():
            _unpack(name, package, folder)
    for path in (folder / "usr/sbin" / name, folder / "usr/bin" / name):
        if path.exists():
            if subprocess.run([path, "--help"], capture_output=True, timeout=60, check=False).returncode in (126, 127):
                break
            return str(path)
    pytest.skip(f"{name}: the package {package} does not run here")


def _unpack(name, package, folder):
    unpacked = folder.with_name(f"{package}-{os.getpid()}")
    unpacked.mkdir()
    try:
        for command in (["apt-get", "download", package], ["sh", "-c", "dpkg -x ./*.deb . && rm ./*.deb"]):
            subprocess.run(command, cwd=unpacked, check=True, capture_output=True, timeout=120)
        unpacked.rename(folder)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{name} is not installed, and `apt-get download {package}` failed: {error}")
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
