"""A job is followed to its end: each event once, in order, and the end decides how the command ends."""

import io

import pytest
from rich.console import Console

from castalia.follow import JobCancelledError, JobFailedError, follow_job
from core.data.file_check import unfit_file
from core.spec.errors import JobError
from core.spec.events import Noted, Started, StepDone
from core.spec.job import JobSpec
from core.store.attempts import Retries, fail_attempt, stop_attempt, succeed_job
from core.store.jobs import create_job
from core.store.leases import claim_job
from core.store.record import record_events
from core.store.wishes import cancel_job


class Story:
    """A job whose next chapter happens whenever the follower sleeps."""

    def __init__(self, database, job_id, client):
        self.job_id = job_id
        self.chapters = []
        self._database = database
        self._client = client
        self.console = Console(file=io.StringIO(), width=200)
        self._lines = 0
        with database.begin() as session:
            self.lease = claim_job(session, job_id, worker="w", lease_s=60)

    def says(self, *events):
        def record(session):
            record_events(session, self.lease, self._lines, events)
            self._lines += len(events)

        self.then(record)

    def then(self, change):
        """``change`` is given a session."""

        def chapter():
            with self._database.begin() as session:
                change(session)

        self.chapters.append(chapter)

    def follow(self):
        return follow_job(
            self._client, self.job_id, self.console, sleep=lambda _: self.chapters.pop(0)()
        )

    @property
    def said(self):
        lines = self.console.file.getvalue().splitlines()
        return [
            line.strip() for line in lines if line.startswith(("info", "warn", "error", "http"))
        ]


@pytest.fixture
def story(database, project, training_file, client):
    spec = JobSpec(model="toy", training_file=training_file())
    with database.begin() as session:
        job_id = create_job(session, project, spec, unfit=unfit_file).id
    return Story(database, job_id, client)


def step(number):
    metrics = {"train_loss": 2.5, "tokens_per_second": 10.0}
    return StepDone(
        at=0.0, step=number, total_steps=9, trained_tokens=1, metrics=metrics, seconds_left=1.0
    )


def started():
    return Started(at=0.0, step=0, total_steps=9, rows=3, layers={"streamed": 2})


def test_each_event_is_told_once_and_in_order(story):
    story.says(started(), step(1))
    story.says()
    story.says(step(2), Noted(at=0.0, level="warn", code="c", message="look here"), step(3))
    story.then(lambda session: succeed_job(session, story.lease, trained_tokens=5))
    job = story.follow()
    assert job["status"] == "succeeded"
    assert story.said == [
        f"info  Created fine-tuning job: {story.job_id}",
        "info  Files validated; job queued",
        "info  Fine-tuning job started (attempt 1)",
        "info  Training started: 3 rows, 9 steps",
        "info  Step 1/9: training loss=2.5000",
        "info  Step 2/9: training loss=2.5000",
        "warn  look here",
        "info  Step 3/9: training loss=2.5000",
        f"info  New fine-tuned model created: {job['fine_tuned_model']}",
        "info  The job has successfully completed",
    ]


def test_on_a_terminal_steps_only_move_the_bar(story):
    story.console = Console(file=io.StringIO(), width=200, force_terminal=True)
    story.says(started(), step(1))
    story.then(lambda session: succeed_job(session, story.lease, trained_tokens=5))
    story.follow()
    said = story.console.file.getvalue()
    assert "Training started" in said
    assert "Step 1/9" not in said
    assert "loss 2.500  10 tokens/s" in said


def test_more_news_than_a_page_are_all_told(story):
    notes = [Noted(at=0.0, level="info", code="c", message=f"note {n}") for n in range(250)]
    story.says(*notes)
    story.then(lambda session: succeed_job(session, story.lease, trained_tokens=5))
    story.follow()
    told = [line for line in story.said if "note" in line]
    assert told == [f"info  note {n}" for n in range(250)]


def test_a_job_that_failed_says_why_and_what_to_do(story):
    error = JobError(code="out_of_memory", message="out of memory", hint="shorten the rows")
    story.then(lambda session: fail_attempt(session, story.lease, error, Retries()))
    with pytest.raises(JobFailedError) as failure:
        story.follow()
    assert str(failure.value) == f"job {story.job_id} failed: out of memory: shorten the rows"
    assert failure.value.exit_code == 4
    assert story.said[-1] == "error out of memory"


def test_without_a_hint_the_code_is_shown(story):
    error = JobError(code="internal_error", message="KeyError: x")
    story.then(lambda session: fail_attempt(session, story.lease, error, Retries()))
    with pytest.raises(JobFailedError, match="code internal_error"):
        story.follow()


def test_a_job_that_was_cancelled_ends_with_a_code_of_its_own(story):
    story.then(lambda session: cancel_job(session, story.lease.project_id, story.job_id))
    story.then(lambda session: stop_attempt(session, story.lease, "r"))
    with pytest.raises(JobCancelledError, match="its last checkpoint is kept") as cancelled:
        story.follow()
    assert cancelled.value.exit_code == 5


def test_a_service_that_is_away_for_a_while_is_waited_for(story, service):
    story.says(started())
    story.chapters += [service.stop, service.start]
    story.then(lambda session: succeed_job(session, story.lease, trained_tokens=5))
    assert story.follow()["status"] == "succeeded"
    away = [line for line in story.said if line.startswith(service.url)]
    assert len(away) == 1
    assert away[0].endswith("trying again")
    assert story.said[-1] == "info  The job has successfully completed"
