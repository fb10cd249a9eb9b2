"""What dies, stalls and is cut. Each fault takes something from a running system and says whose run it hit.

The one idea: a fault only injects; who restarts, reconnects and resumes is the system (`System.tend`) and the
service itself. A fault that finds nothing to hit just now raises NotNow and is tried again.
"""

import random
import signal
from collections.abc import Callable
from functools import partial

from kombu.exceptions import OperationalError

from benchmarks.chaos.processes import signal_all
from benchmarks.chaos.settings import LEASE_S, SWEEP_S
from benchmarks.chaos.system import System
from benchmarks.chaos.targets import Aim, Hit, NotNow, a_trainer, a_worker
from core.spec.bell import TRAIN_TASK

Fault = Callable[[System, random.Random, Aim], Hit]

PAST_A_LEASE_S = LEASE_S + SWEEP_S + 2
LONGEST_DELAY_S = 0.4


def kill_trainer(system: System, rng: random.Random, aim: Aim) -> Hit:
    """SIGKILL a trainer."""
    pid, job = a_trainer(system, rng, aim)
    signal_all([pid], signal.SIGKILL)
    return {job}


def freeze_trainer(system: System, rng: random.Random, aim: Aim) -> Hit:
    """SIGSTOP a trainer, for up to two leases."""
    pid, job = a_trainer(system, rng, aim)
    system.freeze([pid], rng.uniform(1, 2 * LEASE_S))
    return {job}


def kill_worker(system: System, rng: random.Random, aim: Aim) -> Hit:
    """SIGKILL a worker's whole group, its trainer included."""
    name, hit = a_worker(system, rng, aim)
    system.kill(name, rng.uniform(0, 2))
    return hit


def stop_worker(system: System, rng: random.Random, aim: Aim) -> Hit:
    """SIGTERM a worker: it saves and hands its job back."""
    name, hit = a_worker(system, rng, aim)
    system.stop(name, 0)
    return hit


def freeze_worker(system: System, rng: random.Random, aim: Aim) -> Hit:
    """SIGSTOP a worker's whole group beyond its lease: it wakes up and believes to own what it lost."""
    name, hit = a_worker(system, rng, aim)
    system.freeze(system.group(name), PAST_A_LEASE_S + rng.uniform(0, LEASE_S))
    return hit


def kill_prepare(system: System, rng: random.Random, _: Aim) -> Hit:
    """SIGKILL the worker that checks files."""
    system.kill("prepare", rng.uniform(0, 4))
    return set()


def kill_janitor(system: System, rng: random.Random, _: Aim) -> Hit:
    """SIGKILL the janitor."""
    system.kill("janitor", rng.uniform(0, 4))
    return set()


def kill_api(system: System, rng: random.Random, _: Aim) -> Hit:
    """SIGKILL the API."""
    system.kill("api", rng.uniform(0, 2))
    return set()


def kill_valkey(system: System, rng: random.Random, _: Aim) -> Hit:
    """SIGKILL Valkey; it comes back empty."""
    system.kill("valkey", rng.uniform(0, 5))
    return set()


def kill_postgres(system: System, rng: random.Random, _: Aim) -> Hit:
    """SIGKILL Postgres; it comes back and recovers."""
    system.kill("postgres", rng.uniform(0, 1))
    return _running(system)


def stop_postgres(system: System, rng: random.Random, _: Aim) -> Hit:
    """Shut Postgres down for up to more than two leases."""
    system.stop("postgres", rng.uniform(1, 2 * LEASE_S + 2))
    return _running(system)


def cut_lines(system: System, rng: random.Random, _: Aim) -> Hit:
    """Cut every connection to one server, or to both."""
    for name in _some_lines(system, rng):
        system.proxies[name].cut()
    return set()


def half_close_lines(system: System, rng: random.Random, _: Aim) -> Hit:
    """Half close every connection to one server, or to both."""
    for name in _some_lines(system, rng):
        system.proxies[name].half_close()
    return set()


def delay_lines(system: System, rng: random.Random, _: Aim) -> Hit:
    """Let each piece wait for up to 0.4 seconds, either way, for a while."""
    seconds = rng.uniform(2, 8)
    for name in _some_lines(system, rng):
        system.proxies[name].delay_s = rng.uniform(0.05, LONGEST_DELAY_S)
        system.later(seconds, partial(setattr, system.proxies[name], "delay_s", 0.0))
    system.disturb(seconds)
    return set()


def refuse_lines(system: System, rng: random.Random, _: Aim) -> Hit:
    """Cut every connection to one server, or to both, and take no new one for a while."""
    seconds = rng.uniform(1, 6)
    for name in _some_lines(system, rng):
        system.proxies[name].refusing = True
        system.proxies[name].cut()
        system.later(seconds, partial(setattr, system.proxies[name], "refusing", False))
    system.disturb(seconds)
    return set()


def ring_twice(system: System, rng: random.Random, aim: Aim) -> Hit:
    """Deliver the message of every job of the round again, several times."""
    from worker.app import app, ring  # noqa: PLC0415 - Celery is loaded where it is rung with

    app.conf.broker_url = system.broker_url
    try:
        for job in aim.jobs * rng.randint(1, 4):
            ring(TRAIN_TASK, job)
    except OperationalError as error:
        raise NotNow("the broker is away") from error
    return set()


def fill_store(system: System, rng: random.Random, _: Aim) -> Hit:
    """Leave no room for a checkpoint in the artifact store, for a while."""
    system.quota.fill()
    system.later(rng.uniform(2, 8), system.quota.empty)
    return set()


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill_trainer,
        freeze_trainer,
        kill_worker,
        stop_worker,
        freeze_worker,
        kill_prepare,
        kill_janitor,
        kill_api,
        kill_valkey,
        kill_postgres,
        stop_postgres,
        cut_lines,
        half_close_lines,
        delay_lines,
        refuse_lines,
        ring_twice,
        fill_store,
    )
}


def possible_faults(system: System) -> list[str]:
    """Names of those that this machine lets us inject."""
    return [name for name in FAULTS if name != "fill_store" or system.quota.limited]


def _running(system: System) -> Hit:
    return set(system.trainers().values())


def _some_lines(system: System, rng: random.Random) -> list[str]:
    both = sorted(system.proxies)
    return rng.choice([both, both[:1], both[1:]])
