"""Asks for every job's status all the time, by the API and in the database, and writes down every lie.

A lie is: to leave a terminal status; to fall behind a step that was shown; to be `running` with a lease that
ran out longer ago than it takes to notice; to have `succeeded` without the weights of the last step.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.chaos.client import JOBS, Api, Refused, Unanswered
from benchmarks.chaos.jobs import STEPS, Job

TERMINAL = ("succeeded", "failed", "cancelled")
TURN_S = 0.2
SPARE = 3
"""Jobs that are listed beside those that are watched: a request whose answer was lost may have made one."""
NOTICE_S = 3.0
"""What a busy machine may add to a lease and a sweep."""
OVERDUE = """
select id, extract(epoch from clock_timestamp() - lease_expires_at)::float
from jobs where status = 'running' and lease_expires_at < clock_timestamp()
"""


@dataclass(slots=True)
class Seen:
    """What was shown of a job last, and whether its success was looked into."""

    status: str = ""
    step: int = 0
    attempts: int = 0
    proven: bool = False


class Witness(threading.Thread):
    """Watches until `end` is set.

    `calm_since` tells since when leases could be taken back; `unnoticed_s` is a lease and a sweep.
    """

    def __init__(
        self,
        api: Api,
        database_url: str,
        calm_since: Callable[[], float],
        unnoticed_s: float,
    ) -> None:
        super().__init__(name="witness", daemon=True)
        self._api, self._calm_since = api, calm_since
        self._limit_s = unnoticed_s + NOTICE_S
        self._database_url = database_url.replace("postgresql+psycopg", "postgresql", 1)
        self._database: psycopg.Connection | None = None
        self._seen: dict[str, Seen] = {}
        self.lies: set[str] = set()
        self.end = threading.Event()

    def watch(self, job: Job) -> None:
        """One more."""
        self._seen.setdefault(job.id, Seen())

    def forget_all(self) -> None:
        """A round is over."""
        self._seen = {}

    def step_of(self, job_id: str) -> int:
        """The furthest step that was shown."""
        return self._seen[job_id].step if job_id in self._seen else 0

    def status_of(self, job_id: str) -> str:
        """The last status that was shown; empty before the first."""
        return self._seen[job_id].status if job_id in self._seen else ""

    def attempts_of(self, job_id: str) -> int:
        """How often it was begun."""
        return self._seen[job_id].attempts if job_id in self._seen else 0

    def settled(self, job_id: str) -> bool:
        """Whether it has ended, and what its success is worth is known."""
        seen = self._seen.get(job_id, Seen())
        return seen.status in TERMINAL and (seen.proven or seen.status != "succeeded")

    def run(self) -> None:
        """One turn after the other."""
        while not self.end.wait(TURN_S):
            try:
                self._look(dict(self._seen))
            except Unanswered:
                pass
            except Refused as refusal:
                self.lies.add(f"what is there is denied: {refusal}")
            self._look_at_leases()
        if self._database is not None:
            self._database.close()

    def _look(self, watched: Mapping[str, Seen]) -> None:
        """At the newest jobs, which are those that are watched; older ones have been judged."""
        if not watched:
            return
        listed = self._api.get(JOBS, limit=len(watched) + SPARE)["data"]
        for answer in listed:
            if answer["id"] in watched:
                self._note(answer["id"], watched[answer["id"]], answer)
        gone = set(watched) - {answer["id"] for answer in listed}
        self.lies |= {f"{job_id} is gone" for job_id in gone}

    def _note(self, job_id: str, seen: Seen, answer: Mapping[str, Any]) -> None:
        if answer["status"] == "succeeded" and not seen.proven:
            self._look_into_success(job_id, answer)
            seen.proven = True
        step = answer["progress"]["step"]
        if seen.status in TERMINAL and answer["status"] != seen.status:
            self.lies.add(f"{job_id} was {seen.status} and is {answer['status']}")
        if step < seen.step:
            self.lies.add(f"{job_id} was at step {seen.step} and is at {step}")
        seen.status, seen.step = answer["status"], max(step, seen.step)
        seen.attempts = answer["progress"]["attempts"]

    def _look_into_success(self, job_id: str, answer: Mapping[str, Any]) -> None:
        listed = self._api.get(f"{JOBS}/{job_id}/checkpoints")["data"]
        last = [point for point in listed if point["step_number"] == STEPS]
        weights = [file for point in last for file in point["files"] if file["kind"] == "weights"]
        if not weights or not answer["fine_tuned_model"]:
            self.lies.add(f"{job_id} has succeeded without weights of step {STEPS}")

    def _look_at_leases(self) -> None:
        try:
            if self._database is None:
                self._database = psycopg.connect(
                    self._database_url, autocommit=True, connect_timeout=2
                )
            rows = self._database.execute(OVERDUE).fetchall()
        except psycopg.Error:
            self._database = None
            return
        if time.monotonic() - self._calm_since() < self._limit_s:
            return
        for job_id, overdue_s in rows:
            if overdue_s > self._limit_s:
                self.lies.add(f"{job_id} is running, its lease ran out long ago")
