"""`castalia files`: send and fetch, and nothing is ever written outside of the folder asked for."""

import pytest

from core.data.file_check import unfit_file
from core.spec.job import JobSpec
from core.store.checkpoints import StoredFile, add_checkpoint
from core.store.jobs import create_job
from core.store.leases import claim_job

WEIGHTS = {"model.safetensors": "weights", "deep/tokenizer.json": "tokenizer"}
STATE = {"training_state.pt": "state"}


@pytest.fixture
def files(castalia, service, secret):
    return lambda *words: castalia("files", *words, URL=service.url, API_KEY=secret)


@pytest.fixture
def job_id(database, blobs, project, training_file):
    """A job with two checkpoints; the content of a file is its name and step."""
    spec = JobSpec(model="toy", training_file=training_file())
    with database.begin() as session:
        job_id = create_job(session, project, spec, unfit=unfit_file).id
        lease = claim_job(session, job_id, worker="w", lease_s=60)
    for step in (1, 2):
        stored = [
            StoredFile(name, kind, blobs.write([f"{name} {step}".encode()]))
            for name, kind in (WEIGHTS | STATE).items()
        ]
        with database.begin() as session:
            add_checkpoint(session, lease, step=step, metrics={}, files=stored)
    return job_id


def found(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def test_a_file_that_was_sent_can_be_fetched(files, tmp_path, chat_lines):
    (tmp_path / "rows.jsonl").write_bytes(chat_lines(2))
    pushed = files("push", "rows.jsonl")
    assert pushed.out.startswith("file-")
    pulled = files("pull", pushed.out.strip(), "--out", "there")
    assert (pulled.code, pulled.out) == (0, "there\n")
    assert found(tmp_path / "there") == {"rows.jsonl": chat_lines(2).decode()}


def test_of_a_job_the_last_weights_are_fetched(files, job_id, tmp_path):
    assert files("pull", job_id, "--out", "w").code == 0
    assert found(tmp_path / "w") == {name: f"{name} 2" for name in WEIGHTS}


def test_what_a_resumed_run_needs_is_fetched_on_demand(files, job_id, tmp_path):
    files("pull", job_id, "--out", "w", "--all")
    assert found(tmp_path / "w") == {name: f"{name} 2" for name in WEIGHTS | STATE}


def test_a_job_without_a_checkpoint_says_so(files, database, project, training_file):
    spec = JobSpec(model="toy", training_file=training_file())
    with database.begin() as session:
        job_id = create_job(session, project, spec, unfit=unfit_file).id
    said = files("pull", job_id)
    assert (said.code, said.err) == (
        1,
        f"castalia: job {job_id} has no checkpoint yet: see `castalia jobs watch`\n",
    )


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/castalia-evil"])
def test_a_name_that_leads_out_of_the_folder_is_refused(files, stored_file, tmp_path, name):
    file_id = stored_file(b"evil", filename=name)
    said = files("pull", file_id, "--out", "there")
    assert said.code == 1
    assert f"the file's name '{name}' leads out of there" in said.err
    assert not list(tmp_path.rglob("*evil*"))


def test_a_path_that_leads_to_no_file_is_one_line(files):
    said = files("push", "none.jsonl")
    assert (said.code, said.err) == (
        1,
        "castalia: there is no file none.jsonl: check the path\n",
    )
