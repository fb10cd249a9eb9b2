"""`castalia jobs`: from a request file to a job, and from its end to an exit code."""

import json

import pytest

from core.spec.errors import JobError
from core.store.attempts import succeed_job
from core.store.jobs import fail_job, get_job
from core.store.leases import claim_job


@pytest.fixture
def jobs(castalia, service, secret):
    return lambda *words: castalia("jobs", *words, URL=service.url, API_KEY=secret)


@pytest.fixture
def request_file(tmp_path, chat_lines):
    """A request in a folder of its own, beside its training file."""
    folder = tmp_path / "requests"
    folder.mkdir()
    (folder / "rows.jsonl").write_bytes(chat_lines(3))
    path = folder / "job.json"
    path.write_text(json.dumps({"model": "toy", "training_file": "rows.jsonl", "suffix": "s"}))
    return path


@pytest.fixture
def job_id(jobs, request_file):
    return jobs("submit", request_file).out.strip()


@pytest.fixture
def end(database, project, job_id):
    """Ends the job with an error, or with success."""

    def do(error=None):
        with database.begin() as session:
            job = get_job(session, project, job_id)
            if error is not None:
                fail_job(session, job, error)
            else:
                job.status = "queued"
                session.flush()
                lease = claim_job(session, job_id, worker="w", lease_s=60)
                succeed_job(session, lease, trained_tokens=1)

    return do


def test_files_beside_the_request_are_sent_first(job_id, client, chat_lines):
    job = client.get(f"/fine_tuning/jobs/{job_id}")
    assert job["user_provided_suffix"] == "s"
    sent = client.get(f"/files/{job['training_file']}")
    assert (sent["filename"], sent["purpose"]) == ("rows.jsonl", "fine-tune")
    assert sent["bytes"] == len(chat_lines(3))


def test_a_file_that_was_sent_before_is_named_by_its_id(jobs, request_file, training_file, client):
    file_id = training_file()
    (request_file.parent / "None").write_bytes(b"not asked for")
    request_file.write_text(json.dumps({"model": "toy", "training_file": file_id}))
    job_id = jobs("submit", request_file).out.strip()
    job = client.get(f"/fine_tuning/jobs/{job_id}")
    assert (job["training_file"], job["validation_file"]) == (file_id, None)


def test_jobs_are_listed_newest_first(jobs, request_file, job_id):
    second = jobs("submit", request_file).out.strip()
    lines = jobs("list").out.splitlines()
    assert [line.split() for line in lines] == [
        [id, "validating_files", "0/?", "toy"] for id in (second, job_id)
    ]
    assert len(jobs("list", "--limit", 1).out.splitlines()) == 1


def test_a_job_is_paused_and_resumed(jobs, job_id):
    assert jobs("pause", job_id).out == f"{job_id}  paused\n"
    assert jobs("list").out.split()[1] == "paused"
    assert jobs("resume", job_id).out == f"{job_id}  validating_files\n"


def test_a_cancelled_job_is_followed_to_code_five(jobs, job_id):
    assert jobs("cancel", job_id).out == f"{job_id}  cancelled\n"
    watched = jobs("watch", job_id)
    assert (watched.code, watched.out) == (5, "")
    assert watched.err.endswith(
        f"castalia: job {job_id} was cancelled: its last checkpoint is kept\n"
    )


def test_a_failed_job_is_followed_to_code_four(jobs, job_id, end):
    end(JobError(code="c", message="it broke", hint="mend it"))
    watched = jobs("watch", job_id)
    assert watched.code == 4
    assert watched.err.endswith(f"castalia: job {job_id} failed: it broke: mend it\n")


def test_a_job_that_succeeded_prints_its_model(jobs, job_id, end):
    end()
    watched = jobs("watch", job_id)
    assert (watched.code, watched.out.startswith("ft:toy:")) == (0, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("{", "is not JSON"), ("[]", "not a JSON object")],
)
def test_a_request_that_cannot_be_read_is_one_line(jobs, request_file, content, words):
    request_file.unlink()
    if content is not None:
        request_file.write_text(content)
    said = jobs("submit", request_file)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert str(request_file) in said.err
    assert words in said.err


def test_what_the_service_refuses_is_one_line_in_its_words(jobs, request_file):
    request_file.write_text(json.dumps({"model": "toy", "training_file": "rows.jsonl", "x": 1}))
    said = jobs("submit", request_file)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "Invalid 'x': unknown key 'x'" in said.err


def test_without_a_key_nothing_is_asked(castalia, request_file):
    said = castalia("jobs", "submit", request_file)
    assert said.code == 2
    assert said.err.startswith("castalia: there is no API key: set CASTALIA_API_KEY")


def test_without_a_service_it_is_one_line(castalia):
    said = castalia("jobs", "list", URL="http://127.0.0.1:1", API_KEY="k")
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert said.err.startswith("castalia: http://127.0.0.1:1 cannot be reached (")
