"""Room is looked for before anything is laid out, and its end in the middle is told as what it is."""

import errno

import pytest

from core.spec.errors import RunFailure
from core.store.tables import FileRow
from worker.space import check_space, failing_when_full
from worker.supervise import supervise_next


def test_what_fits_exactly_is_let_pass_and_a_byte_more_is_not(tmp_path):
    check_space(tmp_path, 10, lambda _: 10)
    with pytest.raises(RunFailure, match="needs 11 bytes for its files, and 10 are free") as caught:
        check_space(tmp_path, 11, lambda _: 10)
    error = caught.value.error
    assert (error.code, error.fault, error.retryable) == ("insufficient_disk", "platform", True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_told(number):
    with pytest.raises(RunFailure) as caught, failing_when_full():
        raise OSError(number, "full")
    assert caught.value.error.code == "insufficient_disk"


def test_other_troubles_of_a_disk_are_not_mistaken_for_it():
    with pytest.raises(PermissionError), failing_when_full():
        raise PermissionError(errno.EACCES, "no")


def test_a_job_that_no_disk_can_hold_is_tried_again_and_fetches_nothing(
    context, settings, add_job, records
):
    job_id = add_job()
    with context.database.begin() as session:
        session.get_one(FileRow, records.job(job_id).spec["training_file"]).bytes = 2**60
    assert supervise_next(context)
    job = records.job(job_id)
    assert (job.status, job.failures) == ("queued", 1)
    assert records.events(job_id)[-1].data["reason"] == "insufficient_disk"
    assert "training.started" not in records.codes(job_id)
    assert not (settings.runs_dir / job_id).exists()
