"""Jobs and leases to write with, in a database of the test's own."""

import pytest

from core.data.file_check import unfit_file
from core.spec.job import JobSpec
from core.store.jobs import create_job, get_job
from core.store.keys import project_named
from core.store.leases import claim_job
from core.store.objects import open_blobs


@pytest.fixture
def other_project(database) -> str:
    with database.begin() as session:
        return project_named(session, "other").id


@pytest.fixture
def new_job(database, project, training_file):
    """Makes a job and returns its id."""

    def make(file_id: str | None = None, *, owner: str = project, tags=None, **fields) -> str:
        spec = JobSpec(model="m", training_file=file_id or training_file(), **fields)
        with database.begin() as session:
            return create_job(session, owner, spec, tags=tags, unfit=unfit_file).id

    return make


@pytest.fixture
def lease(database, new_job):
    """A lease on a new job."""
    with database.begin() as session:
        return claim_job(session, new_job(), worker="w", lease_s=60.0)


@pytest.fixture
def read_job(database, project):
    def read(job_id: str):
        with database.begin() as session:
            return get_job(session, project, job_id)

    return read


@pytest.fixture(params=["postgres", "file"])
def any_blobs(request, database, tmp_path):
    """Every implementation of Blobs."""
    url = "postgres:" if request.param == "postgres" else f"file://{tmp_path}/objects"
    return open_blobs(database, url)
