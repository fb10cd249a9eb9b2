"""Loopback ports: find a free one, or say plainly that a wanted one is not free.

The one idea: the kernel is asked by binding, the only test that cannot be wrong about who may
listen. Between the test and the server's own bind another program may step in; the server then
fails and the supervisor reports its log, so nothing here needs to hold the port.
"""

import errno
import socket

from castalia.errors import PortUnavailableError

PORTS = range(1, 65536)
_REASONS = {
    errno.EADDRINUSE: "already in use",
    errno.EACCES: "ports below 1024 need privileges",
    errno.EADDRNOTAVAIL: "not an address of this machine",
}


def free_port(host: str = "127.0.0.1") -> int:
    """Find a TCP port of `host` on which nothing listened at the moment of asking."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def check_port(host: str, port: int, option: str = "--port") -> None:
    """Return when a server may listen on (host, port), else raises PortUnavailableError.

    `option` is the command-line option that the remedy tells to use for another port.
    """
    if port not in PORTS:
        raise PortUnavailableError(host, port, "ports are 1 to 65535", option)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # Servers set it too: a connection in TIME_WAIT does not make the port taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as failure:
        reason = _REASONS.get(failure.errno or 0, str(failure))
        raise PortUnavailableError(host, port, reason, option) from failure
