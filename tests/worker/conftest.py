"""Workers with a real database and real trainers; and what the database says afterwards."""

import csv
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, make_url, select

from core.data.file_check import unfit_file
from core.spec.job import JobSpec
from core.store.checkpoints import checkpoint_files, list_checkpoints
from core.store.events import list_events
from core.store.files import get_file
from core.store.jobs import create_job, get_job
from core.store.leases import Lease, claim_job
from core.store.tables import BlobRow, EventRow, JobRow, MetricRow
from worker.context import WorkerContext
from worker.settings import WorkerSettings
from worker.supervise import supervise_next

ROOT = Path(__file__).parents[2]
ROWS = 7
LIMIT_S = 120


@pytest.fixture
def settings(database_url, toy_models_dir, tmp_path) -> WorkerSettings:
    return WorkerSettings(
        database_url=database_url,
        broker_url="redis://127.0.0.1:1/0",
        models_dir=toy_models_dir,
        runs_dir=tmp_path / "runs",
        cache_dir=tmp_path / "cache",
        lease_s=5,
        poll_s=0.05,
    )


@pytest.fixture
def context(settings, monkeypatch) -> Iterator[WorkerContext]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    context = WorkerContext.open(settings)
    yield context
    context.database.close()


@pytest.fixture
def add_job(context, project, training_file, chat_lines) -> Callable[..., str]:
    """A queued job on the toy model, four steps long unless told otherwise; its id."""

    def add(n_epochs: int = 1, batch_size: int = 2, **changes: Any) -> str:
        file = changes.pop("training_file", None) or training_file(chat_lines(ROWS))
        trainer = {"context_length": 64, **changes.pop("trainer", {})}
        document = {
            "model": "toy",
            "training_file": file,
            "hyperparameters": {"n_epochs": n_epochs, "batch_size": batch_size},
            "trainer": trainer,
            **changes,
        }
        spec = JobSpec.parse(document).resolved(context.catalog.facts("toy"))
        with context.database.begin() as session:
            return create_job(session, project, spec, unfit=unfit_file).id

    return add


@pytest.fixture
def claim(context) -> Callable[..., Lease]:
    def do(job_id: str, lease_s: float = 60.0) -> Lease:
        with context.database.begin() as session:
            lease = claim_job(session, job_id, worker="w", lease_s=lease_s)
        assert lease is not None
        return lease

    return do


class Records:
    """What is written about a job."""

    def __init__(self, context: WorkerContext, project: str) -> None:
        self._database = context.database
        self._blobs = context.blobs
        self._project = project

    def job(self, job_id: str) -> JobRow:
        with self._database.begin() as session:
            return get_job(session, self._project, job_id)

    def events(self, job_id: str) -> list[EventRow]:
        """Oldest first."""
        with self._database.begin() as session:
            job = get_job(session, self._project, job_id)
            return list_events(session, job, after=None, limit=10_000).rows[::-1]

    def codes(self, job_id: str) -> list[str]:
        return [event.data["code"] for event in self.events(job_id)]

    def checkpoints(self, job_id: str) -> dict[int, list[Any]]:
        """Files by step, newest step first."""
        with self._database.begin() as session:
            job = get_job(session, self._project, job_id)
            rows = list_checkpoints(session, job, after=None, limit=1000).rows
            files = checkpoint_files(session, [row.id for row in rows])
        return {row.step: files[row.id] for row in rows}

    def metrics(self, job_id: str, name: str) -> dict[int, float]:
        query = select(MetricRow.step, MetricRow.value).order_by(MetricRow.step)
        with self._database.begin() as session:
            found = session.execute(query.where(MetricRow.job_id == job_id, MetricRow.name == name))
            return {row.step: row.value for row in found}

    def results(self, job_id: str) -> list[dict[str, float]]:
        """Steps and losses of the job's result file."""
        with self._database.begin() as session:
            file = get_file(session, self._project, self.job(job_id).result_file_id or "")
        text = b"".join(self._blobs.read(file.blob_id)).decode()
        rows = csv.DictReader(text.splitlines())
        return [{"step": int(row["step"]), "loss": float(row["train_loss"])} for row in rows]

    def blob_count(self) -> int:
        with self._database.begin() as session:
            return session.scalar(select(func.count()).select_from(BlobRow)) or 0


@pytest.fixture
def records(context, project) -> Records:
    return Records(context, project)


@pytest.fixture
def trainers(settings) -> Callable[[], list[int]]:
    """The processes that train now."""

    def find() -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"core.train" in words and any(bytes(settings.runs_dir) in word for word in words):
                found.append(int(path.parent.name))
        return found

    return find


@pytest.fixture
def in_thread(context, trainers) -> Iterator[Callable[..., Any]]:
    """Supervises a job beside the test; at the end no trainer is left."""
    with ThreadPoolExecutor() as pool:
        yield lambda other=None: pool.submit(supervise_next, other or context)
    assert trainers() == []


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Waits for what other processes do."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)

    return wait


@pytest.fixture
def outage(postgres_url, database_url) -> Callable[[], Any]:
    """While the block runs, the database of this test takes no connections and has dropped the old."""
    name = make_url(database_url).database
    admin = postgres_url.replace("postgresql+psycopg://", "postgresql://", 1)

    @contextmanager
    def away() -> Iterator[None]:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"alter database {name} with allow_connections false")
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
            )
            yield
            connection.execute(f"alter database {name} with allow_connections true")

    return away
