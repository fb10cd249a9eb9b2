"""Whom a fault hits: a trainer or a worker, of the job whose moment has come or of any."""

import random
from dataclasses import dataclass

from benchmarks.chaos.settings import WORKERS
from benchmarks.chaos.system import System

Hit = set[str]
"""Ids of the jobs whose run was hit."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The ids of this round's jobs; and of the one whose run is to be hit, or None: any."""

    jobs: list[str]
    target: str | None


class NotNow(Exception):
    """There is nothing to hit."""


def a_trainer(system: System, rng: random.Random, aim: Aim) -> tuple[int, str]:
    """A trainer's process, and its job. Raises NotNow."""
    return rng.choice(_aimed_at(sorted(system.trainers().items()), aim))


def a_worker(system: System, rng: random.Random, aim: Aim) -> tuple[str, Hit]:
    """A worker that has a trainer, and the job of that trainer. Raises NotNow."""
    trainers = _aimed_at(sorted(system.trainers().items()), aim)
    owners = {pid: name for name in WORKERS for pid in system.group(name)}
    owned = [(owners[pid], job) for pid, job in trainers if pid in owners]
    if not owned:
        raise NotNow("no worker is busy with it")
    name, job = rng.choice(owned)
    return name, {job}


def _aimed_at(trainers: list[tuple[int, str]], aim: Aim) -> list[tuple[int, str]]:
    found = [(pid, job) for pid, job in trainers if aim.target in {None, job}]
    if not found:
        raise NotNow("no trainer is running, or not the one that is aimed at")
    return found
