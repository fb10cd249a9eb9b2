"""Nothing of another project can be found, by any function that takes a project."""

import pytest

from core.store.attempts import succeed_job
from core.store.checkpoints import add_checkpoint
from core.store.errors import NotFound
from core.store.files import get_file, list_files, remove_file
from core.store.jobs import get_job, list_jobs
from core.store.leases import claim_job
from core.store.models import find_model, tuned_model_name, tuned_models
from core.store.wishes import cancel_job


@pytest.fixture
def tuned(database, new_job):
    """A job that succeeded, and its model's name."""
    job_id = new_job()
    with database.begin() as session:
        lease = claim_job(session, job_id, worker="w", lease_s=60.0)
        add_checkpoint(session, lease, step=1, metrics={}, files=[])
        succeed_job(session, lease, trained_tokens=1)
        return job_id, get_job(session, lease.project_id, job_id).fine_tuned_model


@pytest.mark.parametrize("use", [get_job, cancel_job])
def test_a_foreign_job_is_not_found(database, project, other_project, new_job, use):
    job_id = new_job()
    with pytest.raises(NotFound, match=job_id), database.begin() as session:
        use(session, other_project, job_id)
    with database.begin() as session:
        assert get_job(session, project, job_id).status == "queued"


@pytest.mark.parametrize("use", [get_file, remove_file])
def test_a_foreign_file_is_not_found(database, project, other_project, training_file, use):
    file_id = training_file()
    with pytest.raises(NotFound, match=file_id), database.begin() as session:
        use(session, other_project, file_id)
    with database.begin() as session:
        assert get_file(session, project, file_id).id == file_id


@pytest.mark.usefixtures("tuned")
def test_foreign_things_are_not_listed(database, other_project):
    with database.begin() as session:
        jobs = list_jobs(session, other_project, tags=None, after=None, limit=9)
        files = list_files(session, other_project, purpose=None, after=None, limit=9, order="asc")
        assert (jobs.rows, files.rows, tuned_models(session, other_project)) == ([], [], [])


def test_a_foreign_model_is_not_found(database, project, other_project, tuned):
    job_id, model = tuned
    with database.begin() as session:
        assert find_model(session, project, model).job.id == job_id
        assert [job.id for job in tuned_models(session, project)] == [job_id]
    with pytest.raises(NotFound), database.begin() as session:
        find_model(session, other_project, model)


def test_a_models_name_is_known_before_the_job_is_done(database, project, new_job):
    job_id = new_job()
    with database.begin() as session:
        job = get_job(session, project, job_id)
        job.suffix = "legal"
        name = tuned_model_name(session, job)
        lease = claim_job(session, job_id, worker="w", lease_s=60.0)
        succeed_job(session, lease, trained_tokens=1)
    assert name.startswith("ft:m:org-castalia:legal:")
    with database.begin() as session:
        assert get_job(session, project, job_id).fine_tuned_model == name
