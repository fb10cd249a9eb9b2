"""The limits that a grading is put under, in its own process, before it begins."""

import math
import os
import resource
from dataclasses import dataclass

from core.graders.inside.system_calls import apply_filter

OPEN_FILES = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What one grading may use: wall-clock seconds (and as many of CPU), bytes of address space."""

    seconds: float = 10.0
    memory_bytes: int = 2**31


def confine(limits: Limits, program: bytes, result_fd: int) -> None:
    """Leave this process its memory, its time and ``result_fd``, and take everything else.

    Standard streams lead nowhere. Raises OSError where the kernel does not do it.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    _close_all_but(result_fd)
    cpu = math.ceil(limits.seconds) + 1
    for kind, limit in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        within = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(kind, (within, within))
    apply_filter(program)


def _close_all_but(kept: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = most if most != resource.RLIM_INFINITY else 2**20
    os.closerange(3, kept)
    os.closerange(kept + 1, most)
