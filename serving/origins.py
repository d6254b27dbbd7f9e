"""Which Host and Origin headers are answered.

A page of another site can send requests to a server on the reader's own machine, and by DNS rebinding under a name of
that site. So requests have to name this server as the operator knows it, and pages of other sites are refused.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Collection


def refusal(host: str | None, origin: str | None, names: Collection[str], own: Collection[str] = ()) -> str | None:
    """Why a request is refused; ``None`` if it is not.

    Addresses are always accepted as hosts, since only a name can be rebound, and so is ``localhost``.

    Args:
        host: the header ``Host``, ``None`` if there is none, as in HTTP/1.0.
        origin: the header ``Origin``, which browsers send with requests from pages.
        names: names of this server, and of sites whose pages may ask it; ``"*"`` for any.
        own: names of this server alone, not of other programs on the same machine.

    Example:

    >>> refusal("127.0.0.1:8501", None, []) is None
    True
    >>> refusal("rebound.example:8501", None, [])
    "The Host 'rebound.example:8501' is not a name of this server: --rest_allowed_hosts adds names"
    >>> refusal("localhost:8501", "http://evil.example", [])
    "Pages of 'http://evil.example' may not use this server: --rest_allowed_hosts adds names"
    """
    if "*" in names:
        return None
    if host is not None and not _is_ours(_name_in(f"//{host}"), {*names, *own}):
        return f"The Host {host[:200]!r} is not a name of this server: --rest_allowed_hosts adds names"
    if origin is not None and not _is_same(host, origin) and _name_in(origin) not in names:
        return f"Pages of {origin[:200]!r} may not use this server: --rest_allowed_hosts adds names"
    return None


def shared_with(host: str | None, origin: str | None) -> dict[str, str]:
    """Headers by which a browser lets pages of another site read an answer, for requests that are not refused.

    Example:

    >>> shared_with("localhost:8501", "https://models.example")["Access-Control-Allow-Origin"]
    'https://models.example'
    >>> shared_with("localhost:8501", "http://localhost:8501"), shared_with("localhost:8501", None)
    ({}, {})
    """
    if origin is None or _is_same(host, origin):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, HEAD, POST",
        "Access-Control-Allow-Headers": "Content-Type, Content-Encoding",
        "Vary": "Origin",
    }


def _is_same(host: str | None, origin: str) -> bool:
    """Whether a page comes from this server itself."""
    return host is not None and origin.lower() == f"http://{host.lower()}"


def _name_in(url: str) -> str:
    """The host of a URL without its port; empty if there is none."""
    try:
        return (urllib.parse.urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_ours(name: str, names: Collection[str]) -> bool:
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
