"""Where gradings run: Python in a sandbox of bubblewrap's, or, for libraries of our own choosing, without.

A user's source runs in namespaces of its own (bubblewrap): no network but an empty loopback, no /proc,
nobody's user, no capabilities, and a file system that holds the system's libraries, this Python, its
packages and this room, all of it read-only, and a little /tmp. Graders by a library read what a model
wrote and run no code of a stranger's, so where bubblewrap does not work they run without it, under the
same limits (core.graders.inside.confine).
"""

import functools
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import core

HOUSE = Path(core.__file__).parent.parent
INSIDE_HOUSE = "/house"
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "PATH": "/nowhere",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",  # a grading may start no thread
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
BEGIN = """
import json, sys
sys.path[:0], sys.path[len(sys.path):] = json.loads(sys.argv[1])
from core.graders.inside.serve import main
main()
"""
SECONDS_TO_PROBE = 60
TEMPORARY_BYTES = 2**24  # for libraries as they are imported; a grading opens nothing for writing


class SandboxUnavailable(Exception):
    """No sandbox runs here; the message says why, and what to do."""


def command(*, strangers: bool) -> list[str]:
    """What starts the serving loop; ``strangers``: it is to run source of a user's.

    Raises SandboxUnavailable where that cannot be confined.
    """
    reason = sandbox_available()
    if reason is None:
        return [*_bubblewrap(), *_python(INSIDE_HOUSE)]
    if strangers:
        raise SandboxUnavailable(reason)
    return _python(str(HOUSE))


@functools.cache
def sandbox_available() -> str | None:
    """Why no source of a user's can be run here, or None; found out once, by starting a sandbox."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed here (Debian: apt-get install bubblewrap)"
    hello = {"job": "python", "settings": {"source": ""}, "seconds": 5.0, "memory_bytes": 2**30}
    try:
        probe = subprocess.run(  # noqa: S603 - the command is ours
            [*_bubblewrap(), *_python(INSIDE_HOUSE)],
            input=json.dumps(hello).encode() + b'\n{"only_define": true}\n',
            capture_output=True,
            timeout=SECONDS_TO_PROBE,
            check=False,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap did not start: {error}"
    if b"defines no function grade" in probe.stdout:
        return None
    said = (probe.stderr or probe.stdout).decode(errors="replace").strip()[-300:]
    return f"bubblewrap makes no sandbox here (are user namespaces allowed?): {said}"


def _bubblewrap() -> list[str]:
    """The sandbox, from outside in."""
    bound = [word for path in SYSTEM for word in ("--ro-bind-try", path, path)]
    for path in _python_paths():
        bound += ["--ro-bind", path, path]
    graders = f"{INSIDE_HOUSE}/core/graders"
    bound += ["--ro-bind", str(HOUSE / "core" / "__init__.py"), f"{INSIDE_HOUSE}/core/__init__.py"]
    bound += ["--ro-bind", str(HOUSE / "core" / "graders"), graders]
    variables = [word for pair in ENVIRONMENT.items() for word in ("--setenv", *pair)]
    return [
        shutil.which("bwrap") or "bwrap",
        *(
            "--unshare-all",
            "--unshare-user",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
        ),
        *("--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
        # First: this Python may itself lie below /tmp.
        *("--size", str(TEMPORARY_BYTES), "--tmpfs", "/tmp"),  # noqa: S108 - as above
        *bound,
        *("--dev", "/dev", "--remount-ro", "/dev"),
        *("--remount-ro", "/", "--chdir", "/"),
        *("--clearenv", *variables),
        "--",
    ]


def _python_paths() -> list[str]:
    """The interpreter, its standard library, and the packages beside it."""
    wanted = [_interpreter(), *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))]
    if Path(sys.base_prefix) not in {Path("/"), Path("/usr")}:
        wanted.insert(0, sys.base_prefix)
    return [path for path in dict.fromkeys([*wanted, *_packages()]) if Path(path).exists()]


def _packages() -> list[str]:
    names = ("site-packages", "dist-packages")
    return [path for path in sys.path if path.endswith(names) and Path(path).is_dir()]


def _interpreter() -> str:
    """The real file: a virtual environment's is a link into the base."""
    return str(Path(sys.executable).resolve())


def _python(house: str) -> list[str]:
    return [_interpreter(), "-sSP", "-c", BEGIN, json.dumps([[house], _packages()])]
