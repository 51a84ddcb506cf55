"""Client addresses, from the connection or, behind a trusted proxy, from the header X-Forwarded-For."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from budgetron.errors import input_error, shown

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_HEADER = b"x-forwarded-for"


def networks_of(texts: Iterable[str]) -> list[Network]:
    """Parse addresses such as 10.0.0.7 and networks such as 10.0.0.0/8."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            accepted = "an address or a network such as 10.0.0.7, 10.0.0.0/8 or fd00::/8"
            raise input_error("serve", "--trusted-proxy", accepted, shown(text)) from None
    return networks


class Addresses:
    """Finds the client of a request. `X-Forwarded-For` counts only if the connection comes from a trusted proxy."""

    def __init__(self, trusted_proxies: Iterable[str]) -> None:
        self._trusted = networks_of(trusted_proxies)

    def of(self, scope: Any) -> str:
        """The client's address from the ASGI scope of a request, in the form of `counted_name`."""
        client = scope.get("client")
        peer = client[0] if client else "unknown"
        if not self._trusted or not self.is_trusted(peer):
            return counted_name(peer)
        # Each proxy appends the address of its peer. Read from the right, the first address that is not a trusted
        # proxy is the client. Addresses further to the left come from the client, which may have invented them.
        values = b",".join(value for header, value in scope["headers"] if header == _HEADER)
        for text in reversed(values.decode("latin-1").split(",")):
            if _parsed(text.strip()) is None:
                break
            peer = text.strip()
            if not self.is_trusted(peer):
                break
        return counted_name(peer)

    def is_trusted(self, address: str) -> bool:
        """Whether an address belongs to a trusted proxy."""
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


@lru_cache(maxsize=4096)
def counted_name(address: str) -> str:
    """The name under which an address is counted: for IPv6 its /64 network, which usually belongs to one client."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A socket that listens on IPv6 reports IPv4 clients as ::ffff:1.2.3.4.
    return parsed.ipv4_mapped or parsed if isinstance(parsed, ipaddress.IPv6Address) else parsed
