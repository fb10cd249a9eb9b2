"""A user who wants her jobs: asks for them, and pauses, resumes or cancels them, until she gets an answer.

An answer that was lost may have been a yes. Asking for a wish again changes nothing, and before a job is
asked for again it is looked for by its tag.
"""

import threading
import time
from pathlib import Path

from benchmarks.chaos.client import JOBS, Api, Refused, Unanswered
from benchmarks.chaos.jobs import Job, files_of, request
from benchmarks.chaos.witness import TERMINAL, Witness

TURN_S = 0.2
MODEL = "toy"


class Customer(threading.Thread):
    """Sees to the wishes of `jobs`, until `end` is set. `refusals` is what she was told no to."""

    def __init__(self, api: Api, jobs: list[Job], rows: Path, witness: Witness) -> None:
        super().__init__(name="customer", daemon=True)
        self._api, self._jobs, self._rows, self._witness = api, jobs, rows, witness
        self._paused_at: dict[str, float] = {}
        self.refusals: list[str] = []
        self.end = threading.Event()

    def run(self) -> None:
        """One turn after the other."""
        while not self.end.wait(TURN_S):
            for job in self._jobs:
                try:
                    self._see_to(job)
                except Unanswered:
                    continue
                except Refused as refusal:
                    self.refusals.append(f"{job.name}: {refusal}")
                    job.told = True

    def _see_to(self, job: Job) -> None:
        if not job.id:
            job.id = self._found(job) or self._created(job)
            self._witness.watch(job)
        elif not job.told and self._witness.step_of(job.id) >= job.at_step:
            self._tell(job)

    def _found(self, job: Job) -> str | None:
        listed = self._api.get(JOBS, **{"metadata[chaos]": job.name})["data"]
        return listed[0]["id"] if listed else None

    def _created(self, job: Job) -> str:
        training, validation = (name and self._upload(name) for name in files_of(job.kind))
        assert training is not None
        body = request(job.kind, training, validation, MODEL) | {"metadata": {"chaos": job.name}}
        return str(self._api.ask("POST", JOBS, json=body).json()["id"])

    def _upload(self, name: str) -> str:
        file = {"file": (name, (self._rows / name).read_bytes())}
        answer = self._api.ask("POST", "/files", data={"purpose": "fine-tune"}, files=file)
        return str(answer.json()["id"])

    def _tell(self, job: Job) -> None:
        if job.wish == "cancel":
            answer = self._api.ask("POST", f"{JOBS}/{job.id}/cancel")
            job.wanted = "cancelled" if answer.is_success else "succeeded"
            job.told = True
        elif job.wish == "pause":
            job.told = self._pause_and_resume(job)
        else:
            job.told = True

    def _pause_and_resume(self, job: Job) -> bool:
        """Whether nothing is left to ask for. A job that has ended meanwhile cannot be paused."""
        if job.id not in self._paused_at:
            answer = self._api.ask("POST", f"{JOBS}/{job.id}/pause")
            if answer.is_success:
                self._paused_at[job.id] = time.monotonic()
            return not answer.is_success
        resting = self._witness.status_of(job.id) in {"paused", *TERMINAL}
        if resting or not job.patient:
            self._api.ask("POST", f"{JOBS}/{job.id}/resume")
            return True
        return False
