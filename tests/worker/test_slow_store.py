"""A store that is slow, full or hanging delays no step, and is not waited for without end."""

import threading
import time
from dataclasses import replace
from threading import Event

import pytest

from core.spec.errors import RunFailure
from core.spec.events import Saved
from core.spec.run import Manifest
from core.store.blobs import Blob
from core.store.errors import ArtifactsDown
from core.store.tables import CheckpointRow
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.supervise import supervise_next
from worker.upload import Uploader


class Hanging:
    """The real blobs, that take nothing until they are let go on."""

    def __init__(self, blobs):
        self._blobs = blobs
        self.go_on = Event()
        self.deleted = []

    def read(self, *arguments):
        return self._blobs.read(*arguments)

    def write(self, chunks) -> Blob:
        self.go_on.wait()
        return self._blobs.write(chunks)

    def delete(self, blob_id):
        self._blobs.delete(blob_id)
        self.deleted.append(blob_id)


class Full(Hanging):
    """The same, that refuse so many writes first."""

    def __init__(self, blobs, refusals):
        super().__init__(blobs)
        self.refusals = refusals

    def write(self, chunks) -> Blob:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ArtifactsDown("cannot write: no space left on device")
        return self._blobs.write(chunks)


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "step-1"
    folder.mkdir()
    (folder / "manifest.json").write_text(Manifest(step=1, files=[]).model_dump_json())
    return Saved(at=0.0, step=1, path=folder.name, metrics={})


@pytest.fixture
def hanging(context):
    blobs = Hanging(context.blobs)
    yield blobs
    blobs.go_on.set()
    for thread in threading.enumerate():
        if thread.name in ("upload", "in-time"):
            thread.join()


@pytest.fixture
def upload(context, settings, add_job, claim, tmp_path):
    """Uploads one checkpoint on a clock of which each look takes ten seconds."""

    def do(blobs, event, wish=None, **finish):
        lease = claim(add_job())
        patient = settings.model_copy(update={"upload_limit_s": 60.0, "stop_grace_s": 20.0})
        ours = replace(context, blobs=blobs, settings=patient)
        ticks = iter(range(0, 10**9, 10))
        with (
            LeaseKeeper(context.database, lease, 60) as keeper,
            Uploader(
                ours, lease, keeper, Pen(context.database, keeper), lambda: next(ticks)
            ) as uploader,
        ):
            keeper.wish = wish
            uploader.submit(tmp_path, event)
            uploader.finish(**finish)
        return lease.job_id

    return do


def test_a_store_that_hangs_is_given_up_at_the_end(upload, hanging, saved):
    began = time.monotonic()
    with pytest.raises(RunFailure, match="took nothing for 60 s") as caught:
        upload(hanging, saved)
    error = caught.value.error
    assert (error.code, error.fault, error.retryable) == ("store_unavailable", "platform", True)
    assert time.monotonic() - began < 60


def test_a_worker_that_ends_waits_only_as_long_as_it_is_told(upload, hanging, saved):
    with pytest.raises(RunFailure, match="not stored within 20 s"):
        upload(hanging, saved, within_s=20)


def test_a_job_that_is_to_be_cancelled_waits_only_as_long_as_a_trainer_may_take(
    upload, hanging, saved
):
    with pytest.raises(RunFailure, match="not stored 20 s after the cancel"):
        upload(hanging, saved, wish="cancel")


def test_what_was_left_behind_can_write_nothing_later(upload, hanging, saved, database, until):
    with pytest.raises(RunFailure):
        upload(hanging, saved, within_s=0)
    hanging.go_on.set()
    until(lambda: hanging.deleted)
    with database.begin() as session:
        assert session.query(CheckpointRow).all() == []


def test_a_store_that_is_full_for_a_while_delays_an_upload(upload, context, saved, records, caplog):
    job_id = upload(Full(context.blobs, 2), saved)
    assert caplog.text.count("upload failed, trying again") == 2
    assert list(records.checkpoints(job_id)) == [1]


def test_a_run_ends_although_its_store_hangs_and_is_tried_again(
    context, settings, hanging, add_job, records
):
    impatient = settings.model_copy(update={"upload_limit_s": 0.5})
    job_id = add_job(trainer={"checkpoint": {"every": 1, "keep_last": 1}})
    supervise_next(replace(context, blobs=_LogsOnly(hanging, context.blobs), settings=impatient))
    assert list(records.metrics(job_id, "train_loss")) == [1, 2, 3, 4]
    assert (records.job(job_id).status, records.job(job_id).failures) == ("queued", 1)
    assert records.events(job_id)[-1].data["reason"] == "store_unavailable"


class _LogsOnly(Hanging):
    """Hangs for checkpoints, which come in pieces from files; a log is one piece."""

    def __init__(self, hanging, blobs):
        super().__init__(blobs)
        self.go_on = hanging.go_on

    def write(self, chunks) -> Blob:
        return self._blobs.write(chunks) if isinstance(chunks, list) else super().write(chunks)
