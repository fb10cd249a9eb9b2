"""One round: jobs are asked for, faults are injected when their moment comes, and every job is judged.

A fault's moment is a time, and maybe a step that one job of the round has to have reached: both are of the
seed. So faults meet trainers that load, step and save, and not only such as wait.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.client import Api, Unanswered
from benchmarks.chaos.customer import Customer
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.jobs import STEPS, Job, draw_jobs
from benchmarks.chaos.reference import Reference
from benchmarks.chaos.system import System
from benchmarks.chaos.targets import Aim, NotNow
from benchmarks.chaos.verdict import Findings, judge, recovery_s
from benchmarks.chaos.witness import Witness

TURN_S = 0.1
MOST_FAULTS = 4
WITHIN_S = 8.0
ANY_STEP_AFTER_S = 90.0
JUDGE_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault and its moment: seconds into the round, and maybe a step of one of its jobs."""

    name: str
    at_s: float
    job: int
    at_step: int | None


@dataclass(slots=True)
class Tally:
    """What all rounds came to; those that were played to their end are counted."""

    rounds: int = 0
    jobs: int = 0
    attempts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    wishes: Counter[str] = field(default_factory=Counter)
    found: Findings = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stage:
    """What every round is played on."""

    system: System
    api: Api
    witness: Witness
    rows: Path
    references: dict[str, Reference]
    faults: list[str]
    deadline_s: float
    tally: Tally


def plan(rng: random.Random, names: list[str], jobs: int) -> list[Planned]:
    """Some faults, by their moments."""
    moments = [None, None, *range(STEPS)]
    drawn = rng.choices(names, k=rng.randint(1, MOST_FAULTS))
    planned = [
        Planned(name, rng.uniform(0, WITHIN_S), rng.randrange(jobs), rng.choice(moments))
        for name in drawn
    ]
    return sorted(planned, key=lambda fault: fault.at_s)


def play(stage: Stage, number: int, seed: int, jobs_a_round: int, *, pausing: bool) -> None:
    """One round, from the first wish to the verdict."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - a schedule is no secret
    jobs = draw_jobs(number, jobs_a_round, rng, pausing=pausing)
    faults = plan(rng, stage.faults, jobs_a_round)
    with Api(stage.system.url, stage.system.key) as api:
        customer = Customer(api, jobs, stage.rows, stage.witness)
        customer.start()
        hits = list(_injected(stage, jobs, faults, rng))
        customer.end.set()
        customer.join()
    stage.tally.found += [("lost", refusal) for refusal in customer.refusals]
    stage.tally.wishes.update(job.wish for job in jobs)
    for job in jobs:
        stage.tally.jobs += 1
        stage.tally.attempts += stage.witness.attempts_of(job.id)
        stage.tally.found += _verdict(stage, job)
    for at, job_id in hits:
        seconds = recovery_s(stage.system, job_id, at)
        stage.tally.recoveries_s += [] if seconds is None else [seconds]
    stage.witness.forget_all()


def _injected(
    stage: Stage, jobs: list[Job], faults: list[Planned], rng: random.Random
) -> Iterator[tuple[float, str]]:
    """Inject until all jobs have ended or their time is over; yields when each job was hit."""
    began, waiting = time.monotonic(), list(faults)
    while time.monotonic() - began < stage.deadline_s:
        stage.system.tend()
        ids = [job.id for job in jobs if job.id]
        if len(ids) == len(jobs) and all(_over(stage, job) for job in jobs):
            return
        for fault in list(waiting):
            try:
                target = _target(stage, jobs, fault, time.monotonic() - began)
                hit = FAULTS[fault.name](stage.system, rng, Aim(ids, target))
            except NotNow:
                continue
            waiting.remove(fault)
            stage.tally.faults[fault.name] += 1
            _say(f"    {time.monotonic() - began:5.1f} s  {fault.name}  {' '.join(sorted(hit))}")
            yield from ((time.time(), id) for id in hit if id in ids)
        time.sleep(TURN_S)
    _say(f"    the deadline of {stage.deadline_s:g} s is over")


def _over(stage: Stage, job: Job) -> bool:
    return stage.witness.settled(job.id)


def _target(stage: Stage, jobs: list[Job], fault: Planned, seconds: float) -> str | None:
    """The job that has reached the fault's step, or none once that has taken too long. Raises NotNow."""
    if seconds > ANY_STEP_AFTER_S or (fault.at_step is None and seconds >= fault.at_s):
        return None
    job_id, witness = jobs[fault.job].id, stage.witness
    running = witness.status_of(job_id) == "running"
    reached = fault.at_step is not None and witness.step_of(job_id) >= fault.at_step
    if seconds < fault.at_s or not running or not reached:
        raise NotNow("its moment has not come")
    return job_id


def _verdict(stage: Stage, job: Job) -> Findings:
    """Asked for until the service, which may still be coming back, has answered."""
    deadline = time.monotonic() + JUDGE_LIMIT_S
    while True:
        stage.system.tend()
        try:
            status = stage.witness.status_of(job.id)
            return judge(stage.api, job, status, stage.references[job.kind])
        except Unanswered:
            if time.monotonic() > deadline:
                return [("lost", f"{job.name} could not be asked for")]
            time.sleep(TURN_S)


def _say(line: str, *rest: Any) -> None:
    print(line, *rest, file=sys.stderr, flush=True)
