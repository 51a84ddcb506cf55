"""Authorization by API keys and their roles.

Without keys, only clients on this machine are accepted, unless the service was started with --without-keys.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from budgetron.errors import error_message
from budgetron.service.http.api_keys import ANONYMOUS, ApiKey
from budgetron.service.http.call import HEADERS, header
from budgetron.service.http.problems import CLOSE, HTTPProblem
from budgetron.service.lifecycle import Service
from budgetron.service.settings import is_loopback

KEY = "budgetron.key"  # in the ASGI scope: the name of the API key, for the log
_OWN_SITES = (b"none", b"same-origin")
_SINGLE_HEADERS = frozenset(
    {b"host", b"authorization", b"content-type", b"idempotency-key", b"origin", b"sec-fetch-site"}
)


def read_headers(scope: Scope) -> HTTPProblem | None:
    """Store the headers of a request by name in its scope, for `header`.

    Returns the error for a missing Host, or for a repeated header that may occur only once; None if there is no error.
    With a repeated header, a proxy in front of the service might check one value, and the service use the other.
    """
    headers = scope["headers"]
    scope[HEADERS] = by_name = dict(headers)
    if len(by_name) == len(headers) and b"host" in by_name:
        return None
    names = [name for name, _ in headers if name in _SINGLE_HEADERS]
    if len(set(names)) == len(names) and b"host" in names:
        return None
    repeated = sorted({name.decode() for name in names if names.count(name) > 1})
    single = ", ".join(sorted(name.decode() for name in _SINGLE_HEADERS))
    found = f"{', '.join(repeated)} more than once" if repeated else "no Host"
    message = f"request: the headers contain {found}. Send Host, and each of these at most once: {single}."
    return HTTPProblem(400, "malformed", message, CLOSE)


def authorize(service: Service, request: Request, role: str) -> ApiKey:
    """Return the API key of a request, or raise an error if it is invalid or lacks the role."""
    if service.api_keys is None:
        _check_origin(service, request)
        return ANONYMOUS
    key = service.api_keys.find(token_of(request.scope))
    if key is None:
        message = (
            "API key: the key is missing, unknown or expired. Send a valid one in the header Authorization: Bearer KEY."
        )
        raise HTTPProblem(401, "no_key", message, {"www-authenticate": "Bearer"})
    request.scope[KEY] = key.name
    if not key.may(role):
        message = f"API key: {key.name!r} has the role {key.role}, but the request needs the role {role}."
        raise HTTPProblem(403, "not_allowed", message)
    return key


def token_of(scope: Scope) -> str:
    """The API key in the headers; empty if there is none."""
    scheme, _, token = header(scope, b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _check_origin(service: Service, request: Request) -> None:
    """Without keys, reject requests from web pages of other sites that are open in a browser on this machine.

    A page can make the browser send requests to localhost; the headers Origin and Sec-Fetch-Site show this. Or the
    owner of the page can let its host name point to this machine; the header Host shows this.
    """
    headers = request.scope[HEADERS]
    host = headers.get(b"host", b"").decode("latin-1")
    if not service.settings.without_keys:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if not is_loopback(name.strip("[]")):
            raise HTTPProblem(
                421, "host", error_message("request", "Host", "localhost, 127.0.0.1 or [::1]", repr(host)[:80])
            )
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none")
    if (origin is not None and urlsplit(origin.decode("latin-1")).netloc != host) or site not in _OWN_SITES:
        got = (origin or site).decode("latin-1")
        message = error_message("request", "Origin", "this service's own page", repr(got)[:80],
                                "Use API keys (--keys) to call the service from other web pages.")  # fmt: skip
        raise HTTPProblem(403, "origin", message)
