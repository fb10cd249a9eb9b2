"""What a user wants of a running job is heard at every stage, and may be taken back."""

from dataclasses import replace
from threading import Event

import pytest

from core.data.file_check import unfit_file
from core.store.wishes import cancel_job, pause_job, resume_job
from worker import keeper as keeping
from worker.keeper import LeaseKeeper, WishHeard
from worker.pen import Pen
from worker.results import Results
from worker.supervise import supervise_next
from worker.watch import Watch

LONG = {"n_epochs": 50, "batch_size": 1}


@pytest.fixture
def wish(database, project):
    def make(how, job_id, *more):
        with database.begin() as session:
            how(session, project, job_id, *more)

    return make


class Recorded:
    """Stands where a trainer would; what it was asked."""

    def __init__(self, exits_after):
        self.asked = []
        self._left = exits_after

    def wait(self, _):
        self._left -= 1
        return None if self._left >= 0 else 0

    def ask_to_stop(self):
        self.asked.append("stop")

    def kill(self):
        self.asked.append("kill")
        self._left = 0


def test_a_job_that_is_paused_goes_on_from_its_checkpoint(
    add_job, records, until, in_thread, wish, context
):
    job_id = add_job(n_epochs=12, batch_size=1, trainer={"checkpoint": {"every": 1000}})
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    wish(pause_job, job_id)
    running.result()
    paused = records.job(job_id)
    assert (paused.status, paused.lease_token, paused.phase) == ("paused", None, None)
    assert list(records.checkpoints(job_id)) == [paused.step]
    assert not supervise_next(context)
    wish(resume_job, job_id, unfit_file)
    assert supervise_next(context)
    assert records.job(job_id).status == "succeeded"
    assert list(records.metrics(job_id, "train_loss")) == list(range(1, 85))


@pytest.mark.parametrize(
    ("how", "status"), [(pause_job, "paused"), (cancel_job, "cancelled")], ids=["pause", "cancel"]
)
def test_a_wish_during_the_layout_is_granted_without_a_trainer(
    context, settings, add_job, records, wish, how, status, monkeypatch
):
    class Slow:
        """The real blobs; the user changes her mind while a file is fetched."""

        def read(self, blob_id):
            wish(how, job_id)
            yield from context.blobs.read(blob_id)
            until_heard.wait(5)

    until_heard = _heard(monkeypatch)
    job_id = add_job()
    assert supervise_next(replace(context, blobs=Slow()))
    assert records.job(job_id).status == status
    assert "chunk_tokens.chosen" not in records.codes(job_id)
    assert not (settings.runs_dir / job_id).exists()


def _heard(monkeypatch):
    """Set once a keeper has brought a wish."""
    heard, renew = Event(), keeping.renew_lease

    def renewed(*arguments, **options):
        brought = renew(*arguments, **options)
        if brought:
            heard.set()
        return brought

    monkeypatch.setattr(keeping, "renew_lease", renewed)
    return heard


def test_a_wish_that_is_taken_back_before_it_was_heard_changes_nothing(
    context, settings, add_job, claim, wish, tmp_path
):
    lease = claim(add_job())
    wish(pause_job, lease.job_id)
    wish(resume_job, lease.job_id, unfit_file)
    with LeaseKeeper(context.database, lease, 0.2) as keeper:
        trainer = Recorded(exits_after=3)
        pen = Pen(context.database, keeper)
        watch = Watch(tmp_path, lease, trainer, None, keeper, pen, settings)
        assert watch.until_exit() == 0
    assert trainer.asked == []


def test_a_wish_that_is_taken_back_after_the_trainer_was_asked_hands_the_job_back(
    context, settings, add_job, claim, records, wish, tmp_path, until
):
    lease = claim(add_job())
    wish(pause_job, lease.job_id)
    strict = settings.model_copy(update={"stop_grace_s": 1e-9})
    with LeaseKeeper(context.database, lease, 0.2) as keeper:
        until(lambda: keeper.wish == "pause")
        trainer = Recorded(exits_after=100)
        pen = Pen(context.database, keeper)
        watch = Watch(tmp_path, lease, trainer, None, keeper, pen, strict)
        exit_code = watch.until_exit()
        wish(resume_job, lease.job_id, unfit_file)
        watch.conclude(exit_code, Results(context, lease, keeper, pen))
    assert trainer.asked == ["stop", "kill"]
    assert (records.job(lease.job_id).status, records.job(lease.job_id).failures) == ("queued", 0)
    assert records.codes(lease.job_id)[-1] == "job.handed_back"


def test_heeding_tells_a_wish_and_nothing_else(context, add_job, claim, wish, until):
    lease = claim(add_job())
    with LeaseKeeper(context.database, lease, 0.2) as keeper:
        keeper.heed()
        wish(cancel_job, lease.job_id)
        until(lambda: keeper.wish == "cancel")
        with pytest.raises(WishHeard):
            keeper.heed()
