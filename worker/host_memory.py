"""Whether the kernel killed somebody for want of memory: it counts, in the control group and on the host."""

from collections.abc import Iterator
from pathlib import Path

COUNT = "oom_kill"


def oom_kills(root: Path = Path("/")) -> int:
    """The kernel's counts so far, of this process's control groups and of the host; 0 where not told.

    ``root`` is where /proc and /sys lie.
    """
    return sum(_count(path) for path in _paths(root))


def _paths(root: Path) -> Iterator[Path]:
    yield root / "proc/vmstat"
    groups = root / "sys/fs/cgroup"
    yield groups / "memory.events"
    yield groups / "memory/memory.oom_control"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        own = path.strip("/")
        if own and not controllers:
            yield groups / own / "memory.events"
        elif own and "memory" in controllers.split(","):
            yield groups / "memory" / own / "memory.oom_control"


def _count(path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.split()[:1] == [COUNT])
