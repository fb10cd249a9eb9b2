"""Checkpoints are stored whole or not at all, whatever the trainer or the lease does meanwhile."""

import hashlib
from threading import Thread

import pytest

from core.spec.events import Saved
from core.spec.run import Manifest, ManifestFile, checkpoint_name
from core.store.attempts import Retries, expire_leases
from core.store.errors import LeaseLost
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.upload import Uploader

FILES = {"model.safetensors": b"w" * 5000, "tokenizer/vocab.txt": b"v"}


@pytest.fixture
def saved(tmp_path):
    """Makes a whole checkpoint; the event that says so."""

    def make(step, files=FILES):
        folder = tmp_path / checkpoint_name(step)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        listed = [
            ManifestFile(
                path=name,
                kind="weights",
                bytes=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for name, content in files.items()
        ]
        manifest = Manifest(step=step, files=listed)
        (folder / "manifest.json").write_text(manifest.model_dump_json())
        return Saved(at=0.0, step=step, path=folder.name, metrics={"train_loss": 1.5})

    return make


@pytest.fixture
def lease(add_job, claim):
    return claim(add_job())


@pytest.fixture
def upload(context, tmp_path):
    def do(lease, *events):
        with (
            LeaseKeeper(context.database, lease, 60) as keeper,
            Uploader(context, lease, keeper, Pen(context.database, keeper)) as uploader,
        ):
            for event in events:
                uploader.submit(tmp_path, event)
            uploader.finish()

    return do


def test_every_file_is_stored_under_its_path(context, lease, records, saved, upload):
    upload(lease, saved(3))
    ((step, files),) = records.checkpoints(lease.job_id).items()
    stored = {file.filename: b"".join(context.blobs.read(file.blob_id)) for file in files}
    assert step == 3
    assert stored.pop("manifest.json").startswith(b'{"step":3')
    assert stored == FILES
    assert records.codes(lease.job_id)[-1] == "checkpoint.saved"


def test_only_as_many_are_kept_as_the_user_asked_for(add_job, claim, records, saved, upload):
    lease = claim(add_job(trainer={"checkpoint": {"keep_last": 2}}))
    before = records.blob_count()
    upload(lease, *map(saved, (1, 2, 3)))
    assert list(records.checkpoints(lease.job_id)) == [3, 2]
    assert records.blob_count() - before == 2 * 3


def test_a_lost_lease_leaves_no_checkpoint_and_no_blob(
    context, add_job, claim, records, saved, upload
):
    lease = claim(add_job(), lease_s=-1.0)
    before = records.blob_count()
    with context.database.begin() as session:
        expire_leases(session, Retries(5, 0.0))
    with pytest.raises(LeaseLost):
        upload(lease, saved(1))
    assert records.checkpoints(lease.job_id) == {}
    assert records.blob_count() == before


def test_a_checkpoint_that_the_trainer_dropped_meanwhile_is_passed_over(
    lease, records, saved, upload, tmp_path
):
    first, second = saved(1), saved(2)
    (tmp_path / first.path).rename(tmp_path / "gone")
    upload(lease, first, second)
    assert list(records.checkpoints(lease.job_id)) == [2]
    told = [event for event in records.events(lease.job_id) if event.level == "warn"]
    assert [event.data for event in told] == [{"code": "checkpoint.skipped", "step": 1}]


def test_a_checkpoint_that_lost_a_file_is_an_error_and_leaves_no_blob(
    lease, records, saved, upload, tmp_path
):
    before = records.blob_count()
    event = saved(1)
    (tmp_path / event.path / "tokenizer" / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError):
        upload(lease, event)
    assert records.checkpoints(lease.job_id) == {}
    assert records.blob_count() == before


def test_an_outage_of_the_database_delays_an_upload(
    lease, records, saved, upload, outage, until, caplog
):
    event = saved(1)
    uploading = Thread(target=upload, args=(lease, event))
    with outage():
        uploading.start()
        until(lambda: "upload failed, trying again" in caplog.text)
    uploading.join()
    assert list(records.checkpoints(lease.job_id)) == [1]
