"""From a URL to the very addresses that may be connected to.

A name is resolved once, the addresses are looked at, and only these are given back to be connected to: a
name that leads elsewhere a moment later (DNS rebinding) changes nothing. It is asked anew for each delivery.
An unknown name and one that leads inside are told alike, so that nobody learns which names are known here.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from core.webhooks.addresses import AllowList, is_public, parsed

Resolver = Callable[[str, int], Sequence[str]]
"""The addresses of a host for a port, best first. Raises OSError."""

LONGEST_URL = 2048
STANDARD_PORTS = {"http": 80, "https": 443}
FIRST_FREE_PORT = 1024
LAST_PORT = 65535


class Refused(Exception):
    """A URL to which nothing is sent; the message says why, without the URL."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, in this order, and what to say there: ``url`` keeps the host's name."""

    url: httpx.URL
    addresses: tuple[str, ...]


def system_addresses(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def target_of(text: str, allow: AllowList, resolve: Resolver = system_addresses) -> Target:
    """Where ``text`` leads, all of whose addresses are public or allowed. Raises Refused."""
    url = _read(text)
    named = allow.names(url.host)
    port = STANDARD_PORTS[url.scheme] if url.port is None else url.port
    addresses = _addresses(url, port, resolve)
    known = [parsed(address) for address in addresses]
    listed = named or all(allow.holds(address) for address in known)
    if not (listed or all(is_public(one) or allow.holds(one) for one in known)):
        raise _out_of_reach(url)
    if not listed and url.scheme != "https":
        raise Refused("must begin with https://; the operator can allow hosts of plain http")
    if not listed and port < FIRST_FREE_PORT and port != STANDARD_PORTS["https"]:
        raise Refused(f"names port {port}, where something else than webhooks is listened to")
    return Target(url, tuple(addresses))


def _read(text: str) -> httpx.URL:
    if len(text) > LONGEST_URL:
        raise Refused(f"has {len(text)} characters; {LONGEST_URL} are the most")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise Refused(f"is no URL: {error}") from None
    if url.scheme not in STANDARD_PORTS or not url.host:
        raise Refused("must be a whole URL that begins with https://")
    if url.port is not None and not 1 <= url.port <= LAST_PORT:
        raise Refused(f"names port {url.port}, which is none")
    if url.userinfo:
        raise Refused("must not hold a name or password; what is sent is signed")
    return url


def _addresses(url: httpx.URL, port: int, resolve: Resolver) -> Sequence[str]:
    try:
        found = resolve(url.raw_host.decode("ascii"), port)
    except (OSError, UnicodeError):
        raise _out_of_reach(url) from None
    if not found:
        raise _out_of_reach(url)
    return found


def _out_of_reach(url: httpx.URL) -> Refused:
    return Refused(
        f"leads to '{url.host}', which is not known, or not on the public Internet and "
        "not allowed by the operator (CASTALIA_WEBHOOK_ALLOW)"
    )
