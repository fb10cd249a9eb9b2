"""Which addresses a webhook may be sent to: those of the public Internet, and what the operator allows.

A webhook's URL is a stranger's wish that this machine speak to another one (server-side request forgery,
CWE-918). So nothing is reached that only this machine's network can reach. The networks below are those of
the IANA special-purpose registries (RFC 6890 and its successors) that are not globally reachable, written out
because Python's own `is_global` differs between its versions, with every IPv6 network that carries an IPv4
address within it, whose gateway might lead back inside.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Self

from pydantic import AfterValidator, Field

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CLOSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by its number, but a cloud's own agent to each of its machines
        "169.254.0.0/16",  # link-local; clouds tell machines their secrets there
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
OPEN_V6 = IPv6Network("2000::/3")
"""Global unicast; outside of it lie loopback, mapped IPv4, NAT64, unique local, link-local, multicast."""
CLOSED_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols, Teredo among them, which carries IPv4
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4 carries IPv4
        "3fff::/20",  # documentation
    )
)


def is_public(address: Address) -> bool:
    """Whether anybody on the Internet could reach it too."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in CLOSED_V4)
    return address in OPEN_V6 and not any(address in network for network in CLOSED_V6)


@dataclass(frozen=True, slots=True)
class AllowList:
    """What the operator lets webhooks reach beside the public Internet: host names, and networks."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``10.1.0.0/16, hooks.internal``: commas between, spaces are nothing. Raises ValueError."""
        hosts, networks = set(), []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            network = _network(entry)
            if network is not None:
                networks.append(network)
            else:
                hosts.add(_host(entry))
        return cls(frozenset(hosts), tuple(networks))

    def names(self, host: str) -> bool:
        """Whether this very name is allowed, wherever it leads."""
        return host.lower().rstrip(".") in self.hosts

    def holds(self, address: Address) -> bool:
        """Whether this address is in one of the networks."""
        return any(address in network for network in self.networks)


def parsed(text: str) -> Address:
    """An address as a resolver tells it."""
    return ip_address(text)


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry.strip("[]"))
    except ValueError:
        if "/" in entry or ":" in entry:
            raise ValueError(
                f"'{entry}' is neither a network such as 10.1.0.0/16 "
                "(no bits set behind the prefix) nor a host's name without port"
            ) from None
        return None


def _host(entry: str) -> str:
    name = entry.lower().rstrip(".")
    if not all(part.replace("-", "").replace("_", "").isalnum() for part in name.split(".")):
        raise ValueError(f"'{entry}' is no host's name; patterns are not known here")
    return name


def _readable(text: str) -> str:
    AllowList.parse(text)
    return text


AllowSetting = Annotated[
    str,
    AfterValidator(_readable),
    Field(description="Hosts and networks that webhooks may reach: hooks.internal,10.1.0.0/16"),
]
"""An allow-list as a setting of a process, refused where it cannot be read."""
