"""Jobs that run, as their workers would tell of them: through the store, in a process of its own.

    python -m benchmarks.api.writers DATABASE_URL JOBS STEPS_PER_S

Prints the jobs' ids as JSON once they run, and writes steps until its stdin ends; then prints how many.
"""

import json
import select
import sys
import time

from core.data.file_check import unfit_file
from core.spec.events import Started, StepDone
from core.spec.job import JobSpec
from core.store.blobs import PostgresBlobs
from core.store.database import Database
from core.store.files import TRAINING_PURPOSE, add_file, set_prepared
from core.store.jobs import create_job
from core.store.keys import DEFAULT_PROJECT, project_named
from core.store.leases import Lease, claim_job, renew_lease
from core.store.record import record_events

LEASE_S = 3600.0
TOTAL_STEPS = 1_000_000
METRICS = ("train_loss", "train_mean_token_accuracy", "learning_rate", "grad_norm", "tokens_per_s")


def main() -> None:
    """Write until nobody wants more."""
    url, jobs, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    database = Database(url)
    leases = start_jobs(database, jobs)
    _say([lease.job_id for lease in leases])
    step = 0
    next_at = time.monotonic()
    while not _told_to_end(max(0.0, next_at - time.monotonic())):
        lease = leases[step % jobs]
        write_step(database, lease, step // jobs + 1)
        step += 1
        next_at = max(next_at + 1 / (rate * jobs), time.monotonic() - 1.0)
    database.close()
    _say(step)


def start_jobs(database: Database, count: int) -> list[Lease]:
    """Jobs of the default project that run, and who holds them."""
    blob = PostgresBlobs(database).write([b'{"text": "a"}\n'])
    with database.begin() as session:
        project = project_named(session, DEFAULT_PROJECT).id
        file = add_file(session, project, filename="a.jsonl", purpose=TRAINING_PURPOSE, blob=blob)
        set_prepared(session, file.id, ok=True, details=None, report={})
    spec = JobSpec(model="none", training_file=file.id)
    return [_started(database, project, spec) for _ in range(count)]


def _started(database: Database, project: str, spec: JobSpec) -> Lease:
    with database.begin() as session:
        job = create_job(session, project, spec, unfit=unfit_file)
        lease = claim_job(session, job.id, worker="benchmark", lease_s=LEASE_S)
        assert lease is not None
        started = Started(at=time.time(), step=0, total_steps=TOTAL_STEPS, rows=1, layers={})
        record_events(session, lease, 0, [started])
    return lease


def write_step(database: Database, lease: Lease, step: int) -> None:
    """What a worker writes when it has heard of a step."""
    done = StepDone(
        at=time.time(),
        step=step,
        total_steps=TOTAL_STEPS,
        trained_tokens=step * 4096,
        metrics=dict.fromkeys(METRICS, 1 / step),
        seconds_left=60.0,
    )
    with database.begin() as session:
        renew_lease(session, lease, lease_s=LEASE_S)
        record_events(session, lease, step, [done])


def _told_to_end(wait_s: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(ready)


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
