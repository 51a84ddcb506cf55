"""What a service is told when it starts. Every limit is here, with its default."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from budgetron.errors import refuse


@dataclass(frozen=True)
class Limits:
    """What one request, or one client, may ask for."""

    body_bytes: int = 8 * 2**20  # of a request that is not a stream
    restore_bytes: int = 2**30  # of a model file
    line_bytes: int = 2**20  # of one line of a stream
    examples: int = 10_000  # in one request that is not a stream
    features: int = 100_000  # numbers in one example
    text: int = 1_000  # characters of a task, a label, an id
    waiting_examples: int = 50_000  # for the writer; beyond them: 503, come again
    watchers: int = 32  # of /v1/events at a time
    connections: int = 1_000
    seconds_to_send: float = 30.0  # a client's headers; its body; each further piece of a stream
    seconds_to_read: float = 30.0  # a client's reading of each piece of an answer
    rate: float = 0.0  # examples (or other requests) a second for each key; 0 is no limit


@dataclass(frozen=True)
class Settings:
    """Where a service listens and what it keeps."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    without_keys: bool = False  # said aloud by whoever listens beyond this machine without keys
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    snapshot_every: int = 50_000
    shards: int | None = None  # of every new model; None is one host
    workers: int = 2  # that the shards are divided among
    ray: Path | None = None  # directory of the shards, where their workers are on Ray
    pending: int = 100_000  # predictions that wait for their label, the latest
    grace: float = 10.0  # seconds that a stop may take
    log_requests: bool = False
    limits: Limits = field(default_factory=Limits)

    def checked(self) -> Settings:
        """The same; or a refusal where it would be open to the world by accident."""
        if not self.keys and not self.without_keys and not is_loopback(self.host):
            raise refuse(
                "serve", "--host", "this machine's own address (127.0.0.1, ::1 or localhost) where there are no keys",
                self.host, "Give --keys FILE (budgetron keys makes one), or say --without-keys.",
            )  # fmt: skip
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise refuse("serve", "--tls-certificate and --tls-key", "given together", "one of them")
        return self


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
