"""Models are found by their whole names, which hold slashes and colons."""

import pytest
from openai import BadRequestError, NotFoundError
from sqlalchemy import update

from core.store.attempts import succeed_job
from core.store.checkpoints import add_checkpoint
from core.store.tables import JobRow
from core.store.workers import remove_worker, report_worker


@pytest.fixture
def tuned(database, run_job):
    """Ends a job with a model of this name."""

    def make(name: str) -> str:
        lease = run_job()
        with database.begin() as session:
            add_checkpoint(session, lease, step=1, metrics={}, files=[])
            succeed_job(session, lease, trained_tokens=1)
            session.execute(
                update(JobRow).where(JobRow.id == lease.job_id).values(fine_tuned_model=name)
            )
        return name

    return make


def test_base_models_are_listed_with_their_context(openai):
    found = {model.id: model for model in openai.models.list()}
    assert list(found) == ["free", "org/tiny", "tiny"]
    assert found["org/tiny"].context_length == 2048
    assert found["free"].context_length is None
    assert {model.owned_by for model in found.values()} == {"castalia"}


@pytest.mark.parametrize("name", ["tiny", "org/tiny"])
def test_a_base_model_is_found_by_its_name(openai, name):
    model = openai.models.retrieve(name)
    assert (model.id, model.object) == (name, "model")
    assert model.created > 0


def test_a_tuned_model_is_found_by_its_name_and_listed(openai, tuned, project):
    name = tuned(f"ft:a/b:{project}::x")
    model = openai.models.retrieve(name)
    assert (model.id, model.owned_by) == (name, project)
    assert name in [model.id for model in openai.models.list()]


def test_a_tuned_model_of_another_project_does_not_exist(stranger, tuned, project):
    name = tuned(f"ft:a/b:{project}:s:x")
    assert stranger.get(f"/v1/models/{name}").status_code == 404
    assert name not in stranger.get("/v1/models").text


@pytest.mark.parametrize(
    "name", ["none", "org", "org/none", "ft:tiny:org::none", "../models/tiny", "tiny/config.json"]
)
def test_a_model_that_does_not_exist_is_not_found(openai, name):
    with pytest.raises(NotFoundError):
        openai.models.retrieve(name)


@pytest.mark.parametrize("path", ["..%2Ftiny", "%2Fetc", "tiny%2F", "%00", "tiny%00"])
def test_no_spelling_of_a_path_leaves_the_folder(client, path):
    assert client.get(f"/v1/models/{path}").status_code == 404


def test_a_broken_model_hides_no_other_and_cannot_be_trained(openai, models_dir, training_file):
    broken = models_dir / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    try:
        assert [model.id for model in openai.models.list()] == ["free", "org/tiny", "tiny"]
        with pytest.raises(BadRequestError, match="of the model 'broken'"):
            openai.models.retrieve("broken")
        with pytest.raises(BadRequestError) as refused:
            openai.fine_tuning.jobs.create(model="broken", training_file=training_file())
        assert (refused.value.param, refused.value.code) == ("model", "model_not_trainable")
    finally:
        (broken / "config.json").unlink()


def test_the_limits_that_workers_tell_are_shown_by_kind_of_worker(openai, database):
    def limit(longest):
        found = {"method": "dpo", "precision": "int8", "adapter": "none"}
        return {"org/tiny": [{**found, "longest_context": longest}]}

    def kinds():
        return {
            (kind["device"], kind["device_bytes"]): kind
            for kind in openai.models.retrieve("org/tiny").trainer_limits
        }

    size = 3_141_592
    with database.begin() as session:
        for name, device, told in (("m1", "A", 9), ("m2", "A", 9), ("m3", "B", 7), ("m4", "C", 0)):
            limits = limit(told) if told else None
            report_worker(
                session, name, version="1", device=device, device_bytes=size, limits=limits
            )
    found = kinds()
    with database.begin() as session:
        for name in ("m1", "m2", "m3", "m4"):
            remove_worker(session, name)
    assert (found["A", size]["workers"], found["B", size]["workers"]) == (2, 1)
    assert found["A", size]["limits"] == limit(9)["org/tiny"]
    assert ("C", size) not in found
    assert ("A", size) not in kinds()
