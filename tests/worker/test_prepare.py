"""An uploaded file is checked once, and the jobs that waited for it move on."""

from dataclasses import replace

import pytest

from core.store.files import get_file, remove_file
from worker.prepare import prepare_file

BAD = b'{"messages": []}\n'


@pytest.fixture
def file(context, project):
    def read(file_id):
        with context.database.begin() as session:
            return get_file(session, project, file_id)

    return read


def test_a_good_file_queues_the_job_that_waits_for_it(
    context, training_file, chat_lines, add_job, file, records
):
    file_id = training_file(chat_lines(3), prepared=False)
    waiting, other = add_job(training_file=file_id), add_job()
    assert records.job(waiting).status == "validating_files"
    assert prepare_file(context, file_id) == [waiting]
    assert (file(file_id).status, file(file_id).report["rows"]) == ("processed", 3)
    assert file(file_id).report["problems"] == []
    assert records.job(waiting).status == records.job(other).status == "queued"


def test_a_bad_file_fails_its_job_and_the_report_names_the_lines(
    context, training_file, chat_lines, add_job, file, records
):
    row = chat_lines(1)
    file_id = training_file(row + BAD + row + b"[\n", prepared=False)
    job_id = add_job(training_file=file_id)
    assert prepare_file(context, file_id) == []
    assert file(file_id).status == "error"
    assert [problem["line"] for problem in file(file_id).report["problems"]] == [2, 4]
    error = records.job(job_id).error
    assert (error["code"], error["param"]) == ("invalid_training_file", "training_file")
    assert file(file_id).status_details in error["message"]


def test_a_file_of_another_kind_is_good_and_fails_its_job(
    context, training_file, add_job, file, records
):
    file_id = training_file(b'{"text": "once upon a time"}\n', prepared=False)
    job_id = add_job(training_file=file_id)
    assert prepare_file(context, file_id) == []
    assert file(file_id).status == "processed"
    error = records.job(job_id).error
    assert (error["code"], error["param"]) == ("invalid_training_file", "training_file")
    assert "plain text" in error["message"]


def test_a_job_waits_for_both_of_its_files(context, training_file, chat_lines, add_job, records):
    files = [training_file(chat_lines(2), prepared=False) for _ in range(2)]
    job_id = add_job(training_file=files[0], validation_file=files[1])
    assert prepare_file(context, files[1]) == []
    assert records.job(job_id).status == "validating_files"
    assert prepare_file(context, files[0]) == [job_id]


def test_a_second_ring_changes_nothing(context, training_file, chat_lines, add_job, file, records):
    file_id = training_file(chat_lines(3), prepared=False)
    job_id = add_job(training_file=file_id)
    prepare_file(context, file_id)
    before = (file(file_id).report, records.codes(job_id))
    assert prepare_file(context, file_id) == []
    assert (file(file_id).report, records.codes(job_id)) == before


def test_a_file_that_is_gone_is_left_alone(context):
    assert prepare_file(context, "file-none") == []


def test_a_file_that_is_deleted_while_it_is_read_is_left_alone(
    context, project, training_file, chat_lines
):
    class Deleting:
        """The real blobs; somebody deletes the file between two pieces."""

        def read(self, blob_id):
            pieces = context.blobs.read(blob_id)
            with context.database.begin() as session:
                remove_file(session, project, file_id)
            context.blobs.delete(blob_id)
            yield from pieces

    file_id = training_file(chat_lines(3), prepared=False)
    assert prepare_file(replace(context, blobs=Deleting()), file_id) == []
