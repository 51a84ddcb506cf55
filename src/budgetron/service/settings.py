"""The settings of a service, and every limit with its default."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from budgetron.errors import input_error
from budgetron.service.http.addresses import networks_of
from budgetron.service.replication import CopySettings


@dataclass(frozen=True)
class Limits:
    """The limits on requests, on clients, and on what waits in the service."""

    header_bytes: int = 2**16  # of a request, its first line included
    body_bytes: int = 8 * 2**20  # of a request that is not a stream
    restore_bytes: int = 2**30  # of a model file
    line_bytes: int = 2**20  # of one line of a stream
    examples: int = 10_000  # in one request that is not a stream
    features: int = 100_000  # numbers in one example
    text: int = 1_000  # characters of a task or a label
    waiting_examples: int = 50_000  # examples that may wait for the writer; beyond that 503 with Retry-After
    pending_bytes: int = 2**26  # of remembered predictions, per model
    watchers: int = 32  # subscribers to events, all models together
    connections: int = 1_000  # open at the same time; a few more are accepted for health checks
    seconds_to_send: float = 30.0  # for the headers, and for each pause in a body; see `http.call` for long bodies
    seconds_to_read: float = 30.0  # for the client to read each piece of a response
    # These four can be changed while the service runs: PUT /v1/limits.
    rate: float = 0.0  # examples (or other requests) per second, for each API key without a rate; 0: no limit
    address_rate: float = 0.0  # examples (or other requests) per second, for each client address; 0: no limit
    address_connections: int = 0  # open connections per client address; 0: no limit per address
    slow_seconds: float = 1.0  # requests that take longer are written to the slow log; 0: no slow log


@dataclass(frozen=True)
class ServiceSettings:
    """Where a service listens, where it stores its models, and how it runs them."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    without_keys: bool = False  # allow other machines to connect without API keys
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    snapshot_every: int = 50_000
    shards: int | None = None  # of every new model; None: not in shards
    workers: int = 2  # per model in shards
    max_workers: int | None = None  # upper bound for adding workers while examples wait; None: always `workers`
    ray: Path | None = None  # directory of the shards if their workers run on Ray
    pending: int = 100_000  # remembered predictions per model; beyond that, the API key with the most loses its oldest
    grace: float = 10.0  # seconds that running requests have when the service stops
    log_requests: bool = False
    consume: tuple[tuple[str, str], ...] = ()  # (name of a model, address of the stream that it learns from)
    traces: str | None = None  # where spans are sent: the URL of a collector, OTLP over HTTP
    trusted_proxies: tuple[str, ...] = ()  # addresses of proxies whose X-Forwarded-For is trusted
    copy: CopySettings | None = None  # how every model is copied; None: no copies
    limits: Limits = field(default_factory=Limits)

    def checked(self) -> ServiceSettings:
        """Return the settings, or raise an error if they contradict each other or expose the service by accident."""
        if not self.keys and not self.without_keys and not is_loopback(self.host):
            raise input_error(
                "serve", "--host", "this machine's own address (127.0.0.1, ::1 or localhost) without API keys",
                self.host, "Add --keys FILE (see: budgetron keys add), or allow it with --without-keys.",
            )  # fmt: skip
        networks_of(self.trusted_proxies)  # raises an error if one is not an address
        if self.max_workers is not None and self.max_workers < self.workers:
            raise input_error("serve", "--max-workers", f"at least --workers, {self.workers}", str(self.max_workers))
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise input_error("serve", "--tls-certificate and --tls-key", "given together", "only one of them")
        if self.copy is not None and (self.shards is not None or self.ray is not None):
            raise input_error(
                "serve", "--replicate-to and --standby-of", "used without models in shards", "--shards or --ray",
                "Models in shards cannot be copied continuously. Copy their directory while the service is stopped.",
            )  # fmt: skip
        return self


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
