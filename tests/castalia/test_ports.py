"""A port is free or the error tells which, why and what to do."""

import socket

import pytest

from castalia.errors import PortUnavailableError
from castalia.ports import check_port, free_port


def test_a_free_port_passes_the_check_and_can_be_bound() -> None:
    port = free_port()
    check_port("127.0.0.1", port)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))


def test_a_taken_port_is_named_with_the_option_that_picks_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortUnavailableError) as caught:
            check_port("127.0.0.1", port, option="--api-port")
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be used (already in use): "
        "stop what uses it, or pick another with --api-port"
    )
    assert caught.value.exit_code == 1


def test_a_port_is_free_again_although_old_connections_linger() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # closed from this side first: TIME_WAIT stays here
    check_port("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [("192.0.2.1", 8000, "not an address of this machine"), ("127.0.0.1", 70000, "1 to 65535")],
)
def test_an_impossible_address_is_told_as_such(host: str, port: int, reason: str) -> None:
    with pytest.raises(PortUnavailableError, match=reason):
        check_port(host, port)
