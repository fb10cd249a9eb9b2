"""One application for all tests of the API; each test has a project of its own in it."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from fastapi import FastAPI
from openai import OpenAI
from sqlalchemy import make_url
from starlette.testclient import TestClient

from api.app import create_app
from api.settings import ApiSettings
from core.data.file_check import unfit_file
from core.spec.job import JobSpec
from core.store.ids import new_id
from core.store.jobs import create_job
from core.store.keys import SCOPES, create_key, new_secret, project_named
from core.store.leases import Lease, claim_job
from core.store.tables import ProjectRow

MAX_BODY_BYTES = 100_000
MAX_UPLOAD_BYTES = 500_000


@pytest.fixture(scope="session")
def database_url(postgres_url) -> str:
    """One database for all of these tests."""
    url = make_url(postgres_url)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("create database api template castalia_template")
    return url.set(database="api").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory) -> Path:
    """Three base models: of 512 positions, of an organisation, and without a limit."""
    folder = tmp_path_factory.mktemp("models")
    for name, limit in (("tiny", 512), ("org/tiny", 2048), ("free", None)):
        config = {"architectures": ["LlamaForCausalLM"], "vocab_size": 64}
        if limit is not None:
            config["max_position_embeddings"] = limit
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def settings(database_url, broker_url, models_dir) -> ApiSettings:
    return ApiSettings(
        database_url=database_url,
        broker_url=broker_url,
        models_dir=models_dir,
        max_body_bytes=MAX_BODY_BYTES,
        max_upload_bytes=MAX_UPLOAD_BYTES,
        webhook_allow="127.0.0.1",
    )


@pytest.fixture(scope="session")
def app(settings) -> Iterator[FastAPI]:
    app = create_app(settings)
    yield app
    app.state.service.close()


@pytest.fixture(scope="session")
def make_app(settings, toy_models_dir):
    """Makes applications whose only model is `toy`."""
    opened = []

    def make(**change):
        change = {"models_dir": toy_models_dir, **change}
        opened.append(create_app(settings.model_copy(update=change)))
        return opened[-1]

    yield make
    for app in opened:
        app.state.service.close()


@pytest.fixture
def change_app(settings):
    """Makes applications with other settings; their only models are those of `models_dir`."""
    opened = []

    def make(**change) -> FastAPI:
        opened.append(create_app(settings.model_copy(update=change)))
        return opened[-1]

    yield make
    for app in opened:
        app.state.service.close()


@pytest.fixture
def project(database) -> str:
    """A project that only this test knows."""
    with database.begin() as session:
        return project_named(session, new_id("project-")).id


@pytest.fixture
def open_client(database):
    """Makes a client of an application, with a key of a project."""
    opened: list[TestClient] = []

    def make(app: FastAPI, project: str, *scopes: str) -> TestClient:
        client = TestClient(app, raise_server_exceptions=False)
        client.headers["authorization"] = f"Bearer {new_key(database, project, *scopes)}"
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def client(app, open_client, project) -> TestClient:
    """Plain HTTP, as the project."""
    return open_client(app, project)


@pytest.fixture
def stranger(app, open_client, database) -> TestClient:
    """Plain HTTP, as another project."""
    with database.begin() as session:
        other = project_named(session, new_id("project-")).id
    return open_client(app, other)


@pytest.fixture
def openai(client) -> OpenAI:
    """The stock client, in-process; it refuses any answer that lacks what it requires."""
    return OpenAI(
        api_key=client.headers["authorization"].removeprefix("Bearer "),
        base_url="http://testserver/v1",
        http_client=client,
        max_retries=0,
        _strict_response_validation=True,
    )


@pytest.fixture
def body(training_file) -> dict[str, object]:
    """The smallest valid body of a job."""
    return {"model": "tiny", "training_file": training_file()}


@pytest.fixture
def run_job(database, project, training_file):
    """Makes a job that a worker holds, and returns the lease."""

    def make(**fields) -> Lease:
        spec = JobSpec(model="tiny", training_file=training_file(), **fields)
        with database.begin() as session:
            job = create_job(session, project, spec, suffix="s", unfit=unfit_file)
            lease = claim_job(session, job.id, worker="w", lease_s=600.0)
        assert lease is not None
        return lease

    return make


def new_key(database, project: str, *scopes: str) -> str:
    """The secret of a key with these scopes, or with all."""
    secret = new_secret()
    with database.begin() as session:
        project_row = session.get_one(ProjectRow, project)
        create_key(session, project_row, "test", secret, scopes or SCOPES)
    return secret
