"""What became of a round's jobs, beside what undisturbed runs came to.

Everything is read as a user reads it, by the API; only the times of events, which the API rounds to seconds,
and stored bytes that no file names are looked up in the database.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import psycopg

from benchmarks.chaos.client import JOBS, Api
from benchmarks.chaos.jobs import STEPS, Job
from benchmarks.chaos.reference import Reference, exact
from benchmarks.chaos.settings import ORPHAN_S, SWEEP_S
from benchmarks.chaos.system import System

MANIFEST_KIND = "manifest"
ALL = 1000
KEYS = (
    "lost",
    "duplicated_steps",
    "wrong_final_weights",
    "wrong_metrics",
    "lying_status",
    "half_artifacts",
)
STEP_TIMES = """
select extract(epoch from created_at)::float from events
where job_id = %s
and data ->> 'code' in ('step.completed', 'job.succeeded', 'job.cancelled', 'job.paused')
order by 1
"""
ORPHANS = "select id from blobs where not exists (select 1 from files where blob_id = blobs.id)"

Findings = list[tuple[str, str]]
"""The key under which each finding counts, and what it is."""


def judge(api: Api, job: Job, status: str, reference: Reference) -> Findings:
    """All that is wrong with a job whose round is over."""
    if not job.id:
        return [("lost", f"{job.name} was never taken")]
    error = api.get(f"{JOBS}/{job.id}")["error"]
    events = api.get(f"{JOBS}/{job.id}/events", limit=ALL)["data"][::-1]
    points = api.get(f"{JOBS}/{job.id}/checkpoints", limit=ALL)["data"]
    named = [
        *end_found(events, job.wanted, status, error),
        *events_found(events, status, reference),
        *weights_found(points, status, reference),
        *((("half_artifacts", what)) for point in points for what in _broken(api, point)),
    ]
    return [(key, f"{job.name} ({job.id}): {what}") for key, what in named]


def recovery_s(system: System, job_id: str, hit_at: float) -> float | None:
    """Seconds (of the unix clock) from a fault to the job's next new step, end or pause; None: none."""
    with _database(system) as database:
        times = [at for (at,) in database.execute(STEP_TIMES, (job_id,))]
    return next((at - hit_at for at in times if at > hit_at), None)


def orphans(system: System) -> list[str]:
    """Stored bytes that no file names, once the sweep had its time."""
    deadline = time.monotonic() + 2 * ORPHAN_S + 10 * SWEEP_S
    while True:
        left = _orphans_now(system)
        if not left or time.monotonic() > deadline:
            return sorted(left)
        system.tend()
        time.sleep(SWEEP_S)


def _orphans_now(system: System) -> set[str]:
    with _database(system) as database:
        unnamed = {id for (id,) in database.execute(ORPHANS)}
        kept = {id for (id,) in database.execute("select id from blobs")}
    return unnamed | ((system.quota.objects() - kept) if system.quota.limited else set())


def _database(system: System) -> psycopg.Connection:
    url = system.postgres_url.replace("postgresql+psycopg", "postgresql", 1)
    return psycopg.connect(url, autocommit=True, connect_timeout=5)


def end_found(events: list[Any], wanted: str, status: str, error: object) -> Findings:
    """What is wrong with a job's end. A cancel that was answered with yes counts, however late it came."""
    if status == wanted:
        return []
    if (wanted, status) != ("cancelled", "succeeded"):
        return [("lost", f"is {status}, wanted {wanted}: {error}")]
    told = [event["data"]["code"] for event in events]
    asked = told.index("job.cancel_requested") if "job.cancel_requested" in told else len(told)
    steps = told[asked:].count("step.completed")
    return [("lying_status", f"has succeeded, {steps} steps after its cancel was granted")]


def events_found(events: list[Any], status: str, reference: Reference) -> Findings:
    """What is wrong with a job's events, oldest first: steps, measurements and their numbers."""
    found: Findings = []
    numbers = [event["sequence"] for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(("duplicated_steps", f"events are numbered {numbers}"))
    for code, expected in (
        ("step.completed", reference.metrics),
        ("eval.completed", reference.evaluated),
    ):
        told = [event["data"] for event in events if event["data"]["code"] == code]
        steps = [data["step"] for data in told]
        found += [
            ("duplicated_steps", f"{code}: {what}") for what in _uneven(steps, expected, status)
        ]
        found += [
            ("wrong_metrics", f"{code} of step {data['step']}: {what}")
            for data in told
            for what in _different(data, expected.get(data["step"], {}))
        ]
    return found


def _uneven(steps: list[int], expected: Mapping[int, Any], status: str) -> list[str]:
    """Steps that were told twice, and those that were not told though a later one was, or the end."""
    last = STEPS if status == "succeeded" else max(steps, default=0)
    twice = [step for step, count in Counter(steps).items() if count > 1]
    left_out = [step for step in expected if step <= last and step not in steps and steps]
    return [f"step {s} twice" for s in twice] + [f"step {s} is missing" for s in left_out]


def _different(data: Mapping[str, Any], expected: Mapping[str, float]) -> list[str]:
    shown = {name: value for name, value in exact(dict(data)).items() if name in expected}
    return [
        f"{name} is {shown.get(name)}, undisturbed {value}"
        for name, value in expected.items()
        if shown.get(name) != value
    ]


def weights_found(points: list[Any], status: str, reference: Reference) -> Findings:
    """What is wrong with the weights of a job's checkpoints."""
    found: Findings = []
    for point in points:
        step = point["step_number"]
        (weights,) = [file for file in point["files"] if file["path"] == "model.safetensors"]
        if weights["sha256"] != reference.weights.get(step):
            found.append(("wrong_final_weights", f"weights of step {step} are not the undisturbed"))
    if status == "succeeded" and STEPS not in {point["step_number"] for point in points}:
        found.append(("wrong_final_weights", f"there are no weights of step {STEPS}"))
    return found


def _broken(api: Api, point: Any) -> list[str]:
    """Files of a checkpoint that are not what they and its manifest say."""
    said = {file["path"]: file["sha256"] for file in point["files"]}
    stored = {
        file["path"]: api.ask("GET", f"/files/{file['id']}/content") for file in point["files"]
    }
    wrong = [
        f"{path} of step {point['step_number']} is not what its sum says"
        for path, answer in stored.items()
        if hashlib.sha256(answer.content).hexdigest() != said[path]
    ]
    (manifest,) = [file for file in point["files"] if file["kind"] == MANIFEST_KIND]
    listed = {file["path"]: file["sha256"] for file in stored[manifest["path"]].json()["files"]}
    if listed != {path: sum for path, sum in said.items() if path != manifest["path"]}:
        wrong.append(f"the manifest of step {point['step_number']} lists other files")
    return wrong
