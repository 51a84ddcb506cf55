"""API keys and their roles. A key is 256 random bits. The file holds only its SHA-256, so reading it reveals no key.

    # name      role      SHA-256 of the key                                                 options
    mobile-app  predict   9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08   500 expires=2027-06-30
    labeller    learn     60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752   models=spam,clicks

`predict` may predict and read statistics. `learn` may also send labels. `admin` may do everything, such as downloading
or replacing the model. The options are examples per second, the last day (UTC) on which the key works, and the models
that it may use.

A key cannot be guessed, so a fast hash is enough, and looking it up by its hash reveals nothing through timing. Keys
are never logged. If the file can no longer be read, all keys stop working after `GRACE` seconds. Without this rule, a
key could not be revoked while the file is missing or damaged.
"""

from __future__ import annotations

import datetime
import os
import secrets
import stat
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from budgetron.errors import InputError, OperationalError, input_error, shown
from budgetron.persist import replace_file

ROLES = ("predict", "learn", "admin")  # each role includes the rights of the roles before it
PREFIX = "bt_"
GRACE = 10.0  # seconds: an editor that replaces the file may leave it unreadable for a moment
_MAX_KEYS = 10_000
_RATE_LIMIT = 1e12  # examples per second; a rate must be below it
_MAX_BYTES = 2**22


class KeysUnreadable(OperationalError):
    """The key file cannot be read, so no key can be accepted."""


@dataclass(frozen=True)
class ApiKey:
    """An API key: one line of the key file."""

    name: str
    role: str
    digest: bytes
    rate: float | None = None
    expires: datetime.date | None = None  # the last day on which the key works
    models: tuple[str, ...] | None = None  # the models that the key may use; None: all

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models

    def is_valid_on(self, day: datetime.date) -> bool:
        return self.expires is None or day <= self.expires


ANONYMOUS = ApiKey("anonymous", "admin", b"")  # authentication is disabled


class ApiKeys:
    """The keys of a file, which is read again when it changes: keys can be added and revoked without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._current_stamp()
        self._by_digest = {key.digest: key for key in read_keys(path)}
        self._failing_since: float | None = None
        self.error = ""  # why the file could not be read the last time

    def find(self, token: str) -> ApiKey | None:
        """Find the key of a token. Returns None if it is unknown or has expired."""
        if self._failing_since is not None and time.monotonic() > self._failing_since + GRACE:
            raise KeysUnreadable(
                "service: the key file is missing or invalid, so no key is accepted. The server log has the reason."
            )
        key = self._by_digest.get(sha256(token.encode("utf-8", "surrogatepass")).digest())
        if key is None or not key.is_valid_on(datetime.datetime.now(datetime.UTC).date()):
            return None
        return key

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            stamp = self._current_stamp()
            if stamp != self._stamp or self._failing_since is not None:
                self._by_digest = {key.digest: key for key in read_keys(self._path)}
                self._stamp = stamp
            self._failing_since, self.error = None, ""
        except (OSError, InputError) as error:
            self.error = str(error)
            if self._failing_since is None:
                self._failing_since = time.monotonic()

    def _current_stamp(self) -> tuple[int, int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_keys(path: Path) -> list[ApiKey]:
    """Read the keys of a file. Errors name the line, but never quote it, because it may contain a key."""
    if os.name == "posix" and os.stat(path).st_mode & stat.S_IWOTH:
        raise input_error(
            "keys",
            "the file",
            "protected from changes by other users",
            f"{str(path)!r}, which everyone may write to",
            f"Run: chmod 600 {path}",
        )
    content = path.read_bytes()
    if len(content) > _MAX_BYTES:
        raise input_error("keys", "the file", f"at most {_MAX_BYTES} bytes long", f"{len(content)} bytes")
    keys: list[ApiKey] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split("#")[0].split()
        if words:
            keys.append(_key(path, number, words))
    names = [key.name for key in keys]
    if len(set(names)) != len(names):
        raise input_error("keys", "the names in the file", "unique", "the same name twice", f"Edit {path}.")
    if not keys or len(keys) > _MAX_KEYS:
        raise input_error("keys", "the file", f"a list of 1 to {_MAX_KEYS} keys", f"{len(keys)} keys in {str(path)!r}",
                          "Add one with: budgetron keys add FILE NAME ROLE")  # fmt: skip
    return keys


def _key(path: Path, number: int, words: list[str]) -> ApiKey:
    accepted = f"NAME ROLE SHA256 [RATE] [expires=YYYY-MM-DD] [models=A,B], with a role of {', '.join(ROLES)}"
    try:
        name, role, digest = words[:3]
        raw = bytes.fromhex(digest)
        rate, expires, models = None, None, None
        for word in words[3:]:
            option, is_named, value = word.partition("=")
            if not is_named:
                rate = float(word)
            elif option == "expires":
                expires = datetime.date.fromisoformat(value)
            elif option == "models" and value:
                models = tuple(value.split(","))
            else:
                raise ValueError
        if role not in ROLES or len(raw) != 32 or (rate is not None and not 0 < rate < _RATE_LIMIT):
            raise ValueError
    except ValueError:
        raise input_error("keys", f"line {number} of {str(path)!r}", accepted, "a line of another form") from None
    return ApiKey(name, role, raw, rate, expires, models)


def add(
    path: Path,
    name: str,
    role: str,
    rate: float | None = None,
    expires: datetime.date | None = None,
    models: tuple[str, ...] = (),
) -> str:
    """Add a new key to the file, which is created if missing. Returns the key, which cannot be shown again."""
    if role not in ROLES:
        raise input_error("keys", "role", f"one of {', '.join(ROLES)}", shown(role))
    if not name or len(name) > 100 or not name.isprintable() or "#" in name or len(name.split()) != 1:
        raise input_error("keys", "name", "one word of at most 100 characters, without #", shown(name))
    if any(not model.replace("-", "").replace("_", "").isalnum() for model in models):
        raise input_error("keys", "models", "names of models: letters, digits, - and _", shown(models))
    if rate is not None and not 0 < rate < _RATE_LIMIT:
        raise input_error("keys", "--rate", f"a number above 0 and below {_RATE_LIMIT:,.0f}", shown(rate))
    known = read_keys(path) if path.exists() and path.stat().st_size else []
    if any(key.name == name for key in known):
        raise input_error("keys", "name", "a name that is not in the file yet", shown(name),
                          "To replace the key, remove its line first.")  # fmt: skip
    token = PREFIX + secrets.token_urlsafe(32)
    options = [rate_words(rate)] if rate is not None else []
    options += [f"expires={expires.isoformat()}"] if expires else []
    options += [f"models={','.join(models)}"] if models else []
    line = " ".join([name, role, sha256(token.encode()).hexdigest(), *options]) + "\n"
    before = path.read_bytes() if path.exists() else b""
    if before and not before.endswith(b"\n"):  # some editors leave the last line without an end
        before += b"\n"
    if not path.exists():
        path.touch(mode=0o600)
    replace_file(path, before + line.encode())
    return token


def rate_words(rate: float) -> str:
    """Return a rate with all its digits (`g` alone would keep six), but an integer without a decimal point."""
    return f"{rate:.15g}"
