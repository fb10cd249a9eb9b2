"""`castalia api | worker | janitor`: what keeps a process from starting is one line."""

import socket

import pytest

URLS = {"DATABASE_URL": "postgresql://u@127.0.0.1:1/d", "BROKER_URL": "redis://127.0.0.1:1/0"}
PROCESSES = ("api", "worker", "janitor")


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("missing", URLS)
def test_a_variable_that_is_missing_is_named(castalia, process, missing):
    said = castalia(process, **{name: url for name, url in URLS.items() if name != missing})
    assert said.code == 2
    assert said.err.startswith(f"castalia: CASTALIA_{missing} is not set: ")
    assert said.err.count("\n") == 1


def test_a_port_that_is_taken_is_named(castalia):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = castalia("api", "--port", port, **URLS)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"castalia: port {port} on 127.0.0.1 cannot be used")


def test_an_api_that_cannot_migrate_does_not_serve(castalia):
    said = castalia("api", "--migrate", **URLS)
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert "the database cannot be reached" in said.err


def test_help_names_every_group(castalia):
    said = castalia("--help")
    assert said.code == 0
    for group in (*PROCESSES, "up", "migrate", "train", "keys", "jobs", "files"):
        assert f" {group} " in said.out
