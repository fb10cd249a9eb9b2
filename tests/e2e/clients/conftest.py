"""One service for all clients: the real API in a thread, a real `prepare`, a job that was really trained."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import make_url, update

from api.doorbell import Doorbell
from api.errors import ApiError
from api.settings import ApiSettings
from core.data.file_check import unfit_file
from core.models.catalog import Catalog
from core.spec.bell import TRAIN_TASK
from core.spec.errors import JobError
from core.spec.job import JobSpec
from core.store.attempts import succeed_job
from core.store.blobs import PostgresBlobs
from core.store.database import Database
from core.store.files import add_file, set_prepared
from core.store.jobs import create_job, fail_job
from core.store.keys import SCOPES, Scope, create_key, new_secret, project_named
from core.store.leases import claim_job
from core.store.quotas import set_quota
from core.store.tables import JobRow
from core.store.wishes import cancel_job, pause_job

HERE = Path(__file__).parent
LIMIT_S = 300
TRAINED_STEPS = [4, 2]


@dataclass(frozen=True)
class Stage:
    """The database behind the service, and how a test sets a scene in it."""

    database: Database
    blobs: PostgresBlobs
    catalog: Catalog
    rows: dict[str, str]

    def project(self, name: str, scopes: Sequence[Scope] = SCOPES) -> tuple[str, str]:
        """The project of this name, and a new key that opens it."""
        secret = new_secret()
        with self.database.begin() as session:
            project = project_named(session, name)
            create_key(session, project, "test", secret, scopes)
        return project.id, secret

    def full(self) -> str:
        """A key of a project that may store nothing."""
        project, key = self.project("full")
        with self.database.begin() as session:
            set_quota(session, project, "stored_bytes", 0)
        return key

    def file(self, project: str, *, prepared: bool = True) -> str:
        blob = self.blobs.write([Path(self.rows["chat"]).read_bytes()])
        with self.database.begin() as session:
            row = add_file(session, project, filename="t.jsonl", purpose="fine-tune", blob=blob)
            if prepared:
                set_prepared(session, row.id, ok=True, details=None, report={})
        return row.id

    def job(self, project: str, status: str = "queued") -> str:
        """A job in this state, as the store brings it there."""
        asked = {
            "model": "org/toy",
            "training_file": self.file(project, prepared=status != "validating_files"),
        }
        asked |= {"validation_file": self.file(project), "trainer": {"context_length": 64}}
        asked |= {"hyperparameters": {"n_epochs": 2, "batch_size": 4}}
        spec = JobSpec.parse(asked).resolved(self.catalog.facts("org/toy"))
        with self.database.begin() as session:
            row = create_job(session, project, spec, unfit=unfit_file, suffix="e2e")
            if status == "paused":
                pause_job(session, project, row.id)
            elif status == "cancelled":
                cancel_job(session, project, row.id)
            elif status == "failed":
                fail_job(session, row, JobError(code="loss_not_finite", message="a test"))
            elif status in ("running", "succeeded"):
                lease = claim_job(session, row.id, worker="w", lease_s=3600)
                if status == "succeeded":
                    succeed_job(session, lease, trained_tokens=1)
        with self.database.begin() as session:
            assert session.get_one(JobRow, row.id).status == status
        return row.id

    def broken(self) -> dict[str, str]:
        """A job whose row no version of the service would have written."""
        project, key = self.project("broken")
        job = self.job(project)
        with self.database.begin() as session:
            session.execute(update(JobRow).where(JobRow.id == job).values(tags=["no", "tags"]))
        return {"key": key, "job": job}


def add_refusals(app: FastAPI) -> None:
    """Routes that refuse with the API's own error, for a status that no other route has, and count it."""
    tries: Counter[str] = Counter()

    @app.get("/v1/refusals/tries/{name}")
    def count(name: str) -> int:
        return tries[name]

    @app.get("/v1/refusals/{status}")
    def refuse(status: int, name: str = "") -> None:
        tries[name] += 1
        raise ApiError(status, "on purpose", code="probe", param="field", hint="a remedy")


@pytest.fixture(scope="module")
def settings(postgres_url, broker_url, toy_model, tmp_path_factory) -> ApiSettings:
    url = make_url(postgres_url)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("create database clients template castalia_template")
    models = tmp_path_factory.mktemp("slashed")
    shutil.copytree(toy_model, models / "org" / "toy")
    return ApiSettings(
        database_url=url.set(database="clients").render_as_string(hide_password=False),
        broker_url=broker_url.removesuffix("/0") + "/5",
        models_dir=models,
        webhook_allow="127.0.0.0/8",
    )


@pytest.fixture(scope="module")
def rows(chat_lines, tmp_path_factory) -> dict[str, str]:
    """Files of rows, by their shape."""
    question, answer = [{"role": "user", "content": "1?"}], [{"role": "assistant", "content": "a"}]
    other = [{"role": "assistant", "content": "b"}]
    pair = {"input": {"messages": question}, "preferred_output": answer}
    shapes = {
        "chat": chat_lines(8),
        "pairs": json.dumps({**pair, "non_preferred_output": other}).encode(),
        "prompts": json.dumps({"messages": question, "letter": "a"}).encode(),
        "broken": b'{"messages": []}\n{"messages": \n',
    }
    folder = tmp_path_factory.mktemp("rows")
    for shape, content in shapes.items():
        (folder / f"{shape}.jsonl").write_bytes(content)
    return {shape: str(folder / f"{shape}.jsonl") for shape in shapes}


@pytest.fixture(scope="module")
def stage(settings, rows) -> Iterator[Stage]:
    database = Database(settings.database_url)
    yield Stage(database, PostgresBlobs(database), Catalog(settings.models_dir), rows)
    database.close()


@pytest.fixture(scope="module")
def trained(stage, settings, tmp_path_factory) -> dict[str, Any]:
    """A job that a real worker has taken to its end; then the worker goes."""
    project, key = stage.project("trained")
    job = stage.job(project)
    with _worker("train", settings, tmp_path_factory.mktemp("train")) as log:
        Doorbell(settings.broker_url).ring(TRAIN_TASK, job)
        _wait_for(lambda: _status(stage, job) not in {"queued", "running"}, log)
        assert _status(stage, job) == "succeeded", log.read_text()
    return {"key": key, "job": job, "steps": TRAINED_STEPS}


@pytest.fixture(scope="module")
def service_urls(serve_module, settings, trained, tmp_path_factory) -> Iterator[dict[str, str]]:
    """Where the service is, and the proxy that breaks answers."""
    assert trained["steps"]  # the trainer has gone before clients come that wait for nobody
    service = serve_module(settings, extend=add_refusals)
    command = [sys.executable, HERE / "breaking_proxy.py", str(service.port)]
    with (
        _worker("prepare", settings, tmp_path_factory.mktemp("prepare")),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy,
    ):
        port = int(proxy.stdout.readline())
        try:
            yield {"url": f"{service.url}/v1", "proxy_url": f"http://127.0.0.1:{port}/v1"}
        finally:
            proxy.terminate()


@pytest.fixture(scope="module")
def run_client(
    stage, service_urls, trained, rows, tmp_path_factory
) -> Iterator[Callable[..., "Run"]]:
    """Starts a client's scenario in a project of its own."""
    told = {**service_urls, "trained": trained, "rows": rows, "broken": stage.broken()}
    told["reader"], told["full"] = stage.project("reader", ["read"])[1], stage.full()
    told["sandbox"] = shutil.which("bwrap") is not None
    started: list[Run] = []

    def start(command: list[str], wishes: dict[str, dict[str, str]], absent: dict[str, str]) -> Run:
        project, key = stage.project(f"client-{len(started)}")
        asked = [
            {"wish": wish, "from": status, "then": then, "job": stage.job(project, status)}
            for wish, outcomes in wishes.items()
            for status, then in outcomes.items()
        ]
        case = {**told, "key": key, "wishes": asked, "absent": absent}
        started.append(Run(command, json.dumps(case), tmp_path_factory.mktemp("client")))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.wait()


class Run:
    """A scenario on its way."""

    def __init__(self, command: list[str], case: str, folder: Path) -> None:
        self._said, self._log = folder / "said", folder / "log"
        (folder / "case.json").write_text(case)
        # Whoever is this test's environment is not the client's.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with (
            (folder / "case.json").open() as given,
            self._said.open("w") as said,
            self._log.open("w") as log,
        ):
            self.process = subprocess.Popen(command, stdin=given, stdout=said, stderr=log, env=env)

    def findings(self) -> dict[str, dict[str, Any]]:
        """What was found, by item."""
        assert self.process.wait(LIMIT_S) == 0, self._log.read_text()
        found = [json.loads(line) for line in self._said.read_text().splitlines()]
        return {finding["item"]: finding for finding in found}


@contextmanager
def _worker(queue: str, settings: ApiSettings, folder: Path) -> Iterator[Path]:
    """A worker from when it hears, since a ring that nobody hears for a while is forgotten; its log."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CASTALIA_DATABASE_URL": settings.database_url,
        "CASTALIA_BROKER_URL": settings.broker_url,
        "CASTALIA_MODELS_DIR": str(settings.models_dir),
        "CASTALIA_RUNS_DIR": str(folder / "runs"),
        "CASTALIA_CACHE_DIR": str(folder / "cache"),
        "CASTALIA_POLL_S": "0.1",
    }
    command = [sys.executable, "-m", "castalia", "worker", f"--queue={queue}"]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        _wait_for(lambda: " ready." in log.read_text(), log)
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)


def _status(stage: Stage, job_id: str) -> str:
    with stage.database.begin() as session:
        return session.get_one(JobRow, job_id).status


def _wait_for(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
