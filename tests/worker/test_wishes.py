"""What a user wants of a running job is heard at every stage, and may be taken back."""

from dataclasses import replace
from threading import Event, Thread

import pytest

from core.data.file_check import unfit_file
from core.spec.events import Finished, StepDone
from core.spec.run import EVENTS_FILE
from core.store.leases import held_job
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

    def __init__(self, *, deaf=False):
        self.asked = []
        self._deaf = deaf
        self._ended = Event()

    def wait(self, _):
        self._ended.wait(0.05)
        return 0 if self._ended.is_set() else None

    def ask_to_stop(self):
        self.asked.append("stop")
        if not self._deaf:
            self._ended.set()

    def kill(self):
        self.asked.append("kill")
        self._ended.set()

    def end(self):
        self._ended.set()


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
        trainer = Recorded()
        pen = Pen(context.database, keeper)
        watch = Watch(tmp_path, lease, trainer, None, keeper, pen, settings)
        Thread(target=lambda: (keeper.pause(0.3), trainer.end())).start()
        assert watch.until_exit() == 0
    assert trainer.asked == []


def test_a_wish_that_is_taken_back_after_the_trainer_was_asked_hands_the_job_back(
    context, settings, add_job, claim, records, wish, tmp_path, until
):
    lease = claim(add_job())
    wish(pause_job, lease.job_id)
    strict = settings.model_copy(update={"stop_grace_s": 0.01})
    with LeaseKeeper(context.database, lease, 0.2) as keeper:
        until(lambda: keeper.wish == "pause")
        trainer = Recorded(deaf=True)
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


@pytest.fixture
def watching(context, settings, tmp_path):
    """A watch over a trainer that has said these events, and the trainer."""

    def watch(lease, keeper, *said, deaf=False, **changed):
        lines = "".join(event.model_dump_json() + "\n" for event in said)
        (tmp_path / EVENTS_FILE).write_text(lines)
        trainer = Recorded(deaf=deaf)
        strict = settings.model_copy(update=changed)
        pen = Pen(context.database, keeper)
        return Watch(tmp_path, lease, trainer, None, keeper, pen, strict), trainer

    return watch


def test_a_wish_is_heard_with_the_next_step_though_no_renewal_brings_it(
    context, add_job, claim, wish, watching
):
    lease = claim(add_job())
    step = StepDone(at=0.0, step=1, total_steps=9, trained_tokens=1, metrics={}, seconds_left=1.0)
    with LeaseKeeper(context.database, lease, 1000) as keeper:
        watch, trainer = watching(lease, keeper, step)
        wish(cancel_job, lease.job_id)
        watch.until_exit()
    assert trainer.asked == ["stop"]


def test_a_trainer_that_does_not_stop_is_killed_while_the_worker_waits_for_a_write(
    context, database, add_job, claim, watching, until, records
):
    lease = claim(add_job())
    step = StepDone(at=0.0, step=1, total_steps=9, trained_tokens=1, metrics={}, seconds_left=1.0)
    with LeaseKeeper(context.database, lease, 60) as keeper:
        watch, trainer = watching(lease, keeper, step, deaf=True, stop_grace_s=0.01)
        with database.begin() as session:
            held_job(session, lease)  # so that neither a renewal nor a write gets at the row
            running = Thread(target=watch.until_exit)
            running.start()
            keeper.hear("cancel")
            until(lambda: trainer.asked == ["stop", "kill"])
        running.join()
    assert records.job(lease.job_id).step == 1


def test_a_run_that_made_its_last_step_after_a_cancel_ends_cancelled(
    context, add_job, claim, wish, watching, records
):
    lease = claim(add_job())
    wish(cancel_job, lease.job_id)
    done = Finished(at=0.0, step=4, trained_tokens=1, metrics={})
    with LeaseKeeper(context.database, lease, 60) as keeper:
        watch, trainer = watching(lease, keeper, done)
        trainer.end()
        results = Results(context, lease, keeper, Pen(context.database, keeper))
        watch.conclude(watch.until_exit(), results)
    assert records.job(lease.job_id).status == "cancelled"
