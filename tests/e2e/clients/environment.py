"""One version of a client in an environment of its own, made once and kept below .cache/clients.

    python environment.py openai==1.109.1      prints the path of a Python that has it; maybe this one
    python environment.py javascript           prints the folder below which Node finds it

Exit 1, with the reason on stderr, where the packages cannot be had. A lock lets only one process make it.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "clients"
LIMIT_S = 300
LOCKFILE = "package-lock.json"


def main() -> int:
    """Make it if need be, and say where it is."""
    name = sys.argv[1]
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        try:
            found = _javascript(folder) if name == "javascript" else _python(folder, name)
        except (subprocess.SubprocessError, OSError) as error:
            sys.stderr.write(f"{name} cannot be had: {_reason(error)}\n")
            return 1
    sys.stdout.write(f"{found}\n")
    return 0


def _python(folder: Path, requirement: str) -> Path:
    if requirement == f"openai=={_own_version()}":
        return Path(sys.executable)
    python = folder / "bin" / "python"
    whole = folder / "whole"
    if not whole.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", requirement, "httpx<1", "pydantic<3")
        whole.touch()
    return python


def _own_version() -> str | None:
    try:
        return version("openai")
    except PackageNotFoundError:
        return None


def _javascript(folder: Path) -> Path:
    locked = (HERE / "javascript" / LOCKFILE).read_bytes()
    whole = folder / "whole"
    if not whole.exists() or whole.read_bytes() != locked:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", LOCKFILE):
            shutil.copy(HERE / "javascript" / name, folder)
        _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
        whole.write_bytes(locked)
    return folder


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd, timeout=LIMIT_S, capture_output=True, text=True)


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return text.strip().splitlines()[-1]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
