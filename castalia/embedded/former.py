"""What a former Postgres left on a cluster, and how it is cleared before the next one starts.

The one idea: an orphan is stopped, not adopted. It is not our child, so it could be neither
watched nor logged, and its port may be another one; a fast shutdown costs a tenth of a second.
The caller holds the lock of the data folder, so an orphan belongs to no living castalia.

`postmaster.pid` names a process, but after a crash or a restart of the machine that number may
be anybody's. A process counts as Postgres only when it works inside the cluster; Postgres itself
compares bare numbers, so a file that points at a stranger is removed (on Linux, where every
process can be looked at; a file with a dead number is left to Postgres' own checks).
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from castalia.embedded.command import run_command
from castalia.errors import PostmasterStuckError

PATIENCE_S = 10.0
STEP_S = 0.05


def clear_former(
    cluster: Path,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once no Postgres works in `cluster`; raises PostmasterStuckError after 10 seconds.

    A living postmaster is asked for a fast shutdown. Backends that outlive a killed postmaster
    end by themselves: they are waited for, since they keep its shared memory.
    """
    deadline = clock() + PATIENCE_S
    postmaster = postmaster_pid(cluster)
    if postmaster is not None and works_in(postmaster, cluster):
        os.kill(postmaster, signal.SIGINT)
    while left := processes_in(cluster):
        if clock() >= deadline:
            raise PostmasterStuckError(cluster, left)
        sleep(STEP_S)
    if postmaster is not None and _taken(postmaster) and sys.platform == "linux":
        (cluster / "postmaster.pid").unlink(missing_ok=True)


def postmaster_pid(cluster: Path) -> int | None:
    """Read the number in postmaster.pid; None without the file, or when a crash left it empty."""
    try:
        first = (cluster / "postmaster.pid").read_text().split("\n", 1)[0]
    except FileNotFoundError:
        return None
    return int(first) if first.isdigit() else None


def processes_in(cluster: Path) -> list[int]:
    """List every Postgres process of this cluster (off Linux: the postmaster alone)."""
    if sys.platform == "linux":
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    else:
        recorded = postmaster_pid(cluster)
        pids = [] if recorded is None else [recorded]
    return [pid for pid in pids if works_in(pid, cluster)]


def works_in(pid: int, cluster: Path) -> bool:
    """Tell whether `pid` is a living Postgres process of this cluster."""
    if sys.platform != "linux":
        command = run_command(["ps", "-o", "command=", "-p", str(pid)]).output
        return "postgres" in command and str(cluster) in command
    process = Path("/proc") / str(pid)
    try:
        is_postgres = (process / "comm").read_text().strip() == "postgres"
        return is_postgres and (process / "cwd").samefile(cluster)
    except OSError:
        # Gone in the meantime, a zombie, or another user's: none of them is ours.
        return False


def _taken(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
