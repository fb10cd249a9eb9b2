"""Follows a job to its end, as a bar for people: step, loss, tokens per second, time left."""

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from castalia.client import Client, ServiceUnreachableError
from castalia.errors import CastaliaError

POLL_S = 1.0
TERMINAL = ("succeeded", "failed", "cancelled")


class JobFailedError(CastaliaError):
    """The job ended without a result."""

    exit_code = 4


class JobCancelledError(CastaliaError):
    """Somebody cancelled the job."""

    exit_code = 5


def follow_job(
    client: Client, job_id: str, console: Console, sleep: Callable[[float], None] = time.sleep
) -> Any:
    """Show a job's events and progress until it ends; the last job object.

    A service that is away for a while is waited for. Raises JobFailedError or JobCancelledError.
    """
    job = client.get(f"/fine_tuning/jobs/{job_id}")
    teller = _Teller(client, job_id, console)
    with steps_bar(console) as bar:
        task = bar.add_task(job["status"], total=None, figures="")
        while True:
            try:
                job = client.get(f"/fine_tuning/jobs/{job_id}")
                figures = teller.tell_news()
            except ServiceUnreachableError as error:
                console.print(f"{error.message}; trying again")
                sleep(POLL_S)
                continue
            progress = job["progress"]
            bar.update(
                task,
                description=job["phase"] or job["status"],
                total=progress["total_steps"],
                completed=progress["step"],
                figures=figures,
            )
            if job["status"] in TERMINAL:
                return _ended(job)
            sleep(POLL_S)


def steps_bar(console: Console) -> Progress:
    """A bar of steps; each task has a field `figures`, such as loss and speed."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=console,
    )


class _Teller:
    """Prints each event once, oldest first; on a terminal steps only feed the bar."""

    def __init__(self, client: Client, job_id: str, console: Console) -> None:
        self._client = client
        self._path = f"/fine_tuning/jobs/{job_id}/events"
        self._console = console
        self._seen = 0
        self._figures = ""

    def tell_news(self) -> str:
        """Print what is new; the figures of the latest step."""
        for event in reversed(self._unseen()):
            self._seen = event["sequence"]
            data = event["data"] or {}
            is_step = data.get("code") == "step.completed"
            if is_step:
                loss = f"loss {data['train_loss']:.3f}" if "train_loss" in data else "step skipped"
                self._figures = f"{loss}  {data['tokens_per_second']:.0f} tokens/s"
            if not (is_step and self._console.is_terminal):  # where the bar cannot be seen
                self._console.print(f"{event['level']:<5} {event['message']}", highlight=False)
        return self._figures

    def _unseen(self) -> list[Any]:
        found: list[Any] = []
        params: dict[str, str | int] = {"limit": 100}
        while True:
            page = self._client.get(self._path, **params)
            new = [event for event in page["data"] if event["sequence"] > self._seen]
            found += new
            if not page["has_more"] or len(new) < len(page["data"]):
                return found
            params["after"] = page["last_id"]


def _ended(job: Any) -> Any:
    if job["status"] == "cancelled":
        raise JobCancelledError(f"job {job['id']} was cancelled", "its last checkpoint is kept")
    if job["status"] == "failed":
        error = job["error"]
        remedy = error["hint"] or f"code {error['code']}"
        raise JobFailedError(f"job {job['id']} failed: {error['message']}", remedy)
    return job
