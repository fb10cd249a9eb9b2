"""What runs on this machine, read from /proc: whose group it is, and which job it trains."""

import contextlib
import os
import signal
from pathlib import Path


def group_members(leader: int) -> list[int]:
    """The processes of a group."""
    return [pid for pid in _pids() if _group_of(pid) == leader]


def trainers_below(runs: Path) -> dict[int, str]:
    """Every running trainer whose spec lies below `runs`/JOB, and its JOB."""
    found = {}
    for pid in _pids():
        words = _command(pid)
        spec = next((w.decode() for w in words if w.endswith(b"/spec.json")), "")
        if b"core.train" in words and spec.startswith(f"{runs}/"):
            found[pid] = Path(spec).relative_to(runs).parts[0]
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal; who is gone is left alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _group_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return None


def cpu_s_below(ancestor: int) -> float:
    """CPU seconds of all that descends from a process, of what has ended and was waited for too."""
    parents, used = {}, {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(fields[1])
            used[pid] = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return sum(seconds for pid, seconds in used.items() if _descends(pid, ancestor, parents))


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False
