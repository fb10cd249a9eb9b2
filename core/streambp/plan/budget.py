"""How much memory a device has to give: what is free on a GPU, what is available on a host.

On a host the kernel's own estimate (`MemAvailable`: free pages and caches that can be dropped) and
every limit of a control group on the way to this process count; the least of them is what there is.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = ("memory.max", "memory.current", "inactive_file")


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on `device` now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return host_free_bytes()


def host_free_bytes(root: Path = Path("/")) -> int:
    """Bytes that this process can still allocate on its host; `root` is where /proc and /sys lie."""
    return min([_available(root), *_left_in_groups(root)])


def _available(root: Path) -> int:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:  # no Linux: all of the memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    kib = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
    return 1024 * kib.get("MemAvailable", kib["MemFree"])


def _left_in_groups(root: Path) -> Iterator[int]:
    """What is left below each limit, of this process's control group and of those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _left(root / "sys/fs/cgroup", path, _V2)
        elif "memory" in controllers.split(","):
            yield from _left(root / "sys/fs/cgroup/memory", path, _V1)


def _left(mount: Path, path: str, names: tuple[str, str, str]) -> Iterator[int]:
    limit, usage, droppable = names
    inner = mount / path.lstrip("/")
    # In a container the path may be the host's, and then only the mount itself is there.
    for folder in (inner, *inner.parents):
        if not folder.is_relative_to(mount):
            return
        try:
            most = (folder / limit).read_text().strip()
            used = int((folder / usage).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except OSError:
            continue
        if most != "max":
            yield max(int(most) - used + int(stat.get(droppable, 0)), 0)
