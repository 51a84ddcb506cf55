"""API keys: who may do what. A key is 256 random bits; the file holds only its SHA-256: reading it opens nothing.

    # name      role      sha256 of the key                                                  examples a second
    mobile-app  predict   9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08   500

`predict` may predict and look; `learn` may also give labels; `admin` may also take, replace and trim models. The rate
is optional. A slow hash would protect guessable passwords; there are none here. Keys are compared in constant time, and
never logged.
"""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from budgetron.errors import InputError, refuse, shown
from budgetron.persist import replace_file

ROLES = ("predict", "learn", "admin")  # each may do what those before it may
PREFIX = "bt_"
_MOST_KEYS = 10_000
_MOST_BYTES = 2**22


@dataclass(frozen=True)
class Key:
    """One line of the file."""

    name: str
    role: str
    digest: bytes
    rate: float | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


NOBODY = Key("nobody", "admin", b"")  # everyone, where there are no keys


class Keys:
    """The keys of a file, read again when it changes: a key is added or withdrawn without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()
        self._keys = read(path)
        self.error = ""  # why the last change was not taken; the keys before it still hold

    def find(self, token: str) -> Key | None:
        """The key of this token. All are compared, whichever it is."""
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def refresh(self) -> None:
        """Look whether the file has changed."""
        try:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                self._keys = read(self._path)
                self.error = ""
        except (OSError, InputError) as error:
            self.error = str(error)

    def _stamp(self) -> tuple[int, int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size, status.st_ino


def read(path: Path) -> list[Key]:
    """The keys of a file, or a refusal that names the line (never what is on it)."""
    content = path.read_bytes()
    if len(content) > _MOST_BYTES:
        raise refuse("keys", "the file", f"of at most {_MOST_BYTES} bytes", f"{len(content)}")
    keys: list[Key] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split("#")[0].split()
        if words:
            keys.append(_key(path, number, words))
    names = [key.name for key in keys]
    if len(set(names)) != len(names):
        raise refuse("keys", "the names in the file", "different", "one that comes twice", f"See {path}.")
    if not keys or len(keys) > _MOST_KEYS:
        raise refuse("keys", "the file", f"one with 1 to {_MOST_KEYS} keys", f"{len(keys)} in {str(path)!r}",
                     "Make one: budgetron keys add FILE NAME ROLE")  # fmt: skip
    return keys


def _key(path: Path, number: int, words: list[str]) -> Key:
    accepted = f"NAME ROLE SHA256 [RATE], with a role of {', '.join(ROLES)}"
    try:
        name, role, digest = words[:3]
        rate = float(words[3]) if len(words) == 4 else None
        raw = bytes.fromhex(digest)
        if role not in ROLES or len(raw) != 32 or len(words) > 4 or (rate is not None and not 0 < rate < 1e12):
            raise ValueError
    except ValueError:
        raise refuse("keys", f"line {number} of {str(path)!r}", accepted, "another line") from None
    return Key(name, role, raw, rate)


def add(path: Path, name: str, role: str, rate: float | None = None) -> str:
    """Write a new key into the file, which is made if missing; the key itself, to be seen this once."""
    if role not in ROLES:
        raise refuse("keys", "role", f"one of {', '.join(ROLES)}", shown(role))
    if not name or len(name) > 100 or not name.isprintable() or "#" in name or len(name.split()) != 1:
        raise refuse("keys", "name", "one word, without #", shown(name))
    known = read(path) if path.exists() and path.stat().st_size else []
    if any(key.name == name for key in known):
        raise refuse("keys", "name", "one that is not in the file yet", shown(name), "Remove its line to replace it.")
    token = PREFIX + secrets.token_urlsafe(32)
    line = f"{name} {role} {sha256(token.encode()).hexdigest()}" + (f" {rate:g}" if rate else "") + "\n"
    before = path.read_bytes() if path.exists() else b""
    if not path.exists():
        path.touch(mode=0o600)
    replace_file(path, before + line.encode())
    return token
