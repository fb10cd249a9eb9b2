"""A schedule is of its seed, and every fault has its turn."""

import random

from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.jobs import draw_jobs
from benchmarks.chaos.rounds import plan


def test_the_same_seed_plans_the_same_faults_and_jobs():
    one, other = (random.Random("3/1") for _ in range(2))
    assert draw_jobs(1, 3, one, pausing=True) == draw_jobs(1, 3, other, pausing=True)
    assert plan(one, list(FAULTS), 3) == plan(other, list(FAULTS), 3)


def test_every_fault_is_injected_sooner_or_later():
    planned = {fault.name for n in range(60) for fault in plan(random.Random(n), list(FAULTS), 3)}
    assert planned == set(FAULTS)


def test_nobody_asks_for_a_pause_that_the_service_does_not_know():
    jobs = [job for n in range(50) for job in draw_jobs(n, 3, random.Random(n), pausing=False)]
    assert {job.wish for job in jobs} == {"finish", "cancel"}
    assert {job.kind for job in jobs} == {"pretrain", "sft", "dpo", "grpo"}
