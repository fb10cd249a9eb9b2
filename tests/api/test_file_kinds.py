"""A file that was checked already must hold what the method of a new job learns from."""

import pytest
from sqlalchemy import func, select

from core.store.files import add_file, set_prepared
from core.store.tables import JobRow

GRADER = {"type": "string_check", "input": "a", "reference": "b", "operation": "eq"}
METHODS = {
    "sft": {},
    "pretrain": {"trainer": {"objective": {"kind": "pretrain"}}},
    "dpo": {"method": {"type": "dpo"}},
    "grpo": {"method": {"type": "reinforcement", "reinforcement": {"grader": GRADER}}},
}
SHAPES = {"sft": "chat", "pretrain": "text", "dpo": "preference", "grpo": "rft"}


@pytest.fixture
def file_of(database, project, blobs):
    """Makes a checked file of this shape."""

    def make(shape: str) -> str:
        blob = blobs.write([b"{}\n"])
        with database.begin() as session:
            row = add_file(session, project, filename="f", purpose="fine-tune", blob=blob)
            set_prepared(session, row.id, ok=True, details=None, report={"shape": shape})
        return row.id

    return make


@pytest.fixture
def post(client, body):
    def do(objective, **change):
        sent = {**body, **METHODS[objective], **change}
        return client.post("/v1/fine_tuning/jobs", json=sent)

    return do


@pytest.mark.parametrize("objective", METHODS)
def test_each_method_takes_files_of_its_own_kind(post, file_of, objective):
    file_id = file_of(SHAPES[objective])
    answer = post(objective, training_file=file_id, validation_file=file_id)
    assert answer.json().get("status") == "queued", answer.text


def test_ready_tokens_are_for_both_that_predict_every_row(post, file_of):
    file_id = file_of("tokens")
    taken = [post(name, training_file=file_id).status_code for name in METHODS]
    assert taken == [200, 200, 400, 400]


@pytest.mark.parametrize("objective", METHODS)
@pytest.mark.parametrize("param", ["training_file", "validation_file"])
def test_a_file_of_another_kind_is_refused_by_the_field_that_names_it(
    post, file_of, database, project, objective, param
):
    files = {name: file_of(SHAPES[objective]) for name in ("training_file", "validation_file")}
    files[param] = file_of("text" if objective == "dpo" else "preference")
    answer = post(objective, **files)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert error["code"] == f"invalid_{param}"
    assert files[param] in error["message"]
    assert "upload rows of one of the shapes" in error["hint"]
    with database.begin() as session:
        jobs = select(func.count()).where(JobRow.project_id == project)
        assert session.scalar(jobs) == 0


def test_a_file_that_is_not_checked_yet_is_waited_for(post, training_file):
    job = post("dpo", training_file=training_file(prepared=False)).json()
    assert job["status"] == "validating_files"
