"""A run is followed line by line: whole lines, in order, and none is lost or taken twice."""

import pytest
from sqlalchemy import select

from core.spec.events import Noted, Stopped
from core.spec.run import BEAT_FILE, EVENTS_FILE
from core.store.tables import AttemptRow
from core.train.journal import Journal
from worker.follow import Follower
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.watch import Watch


@pytest.fixture
def lines():
    notes = [Noted(at=1.0, level="info", code="c", message=f"é {n}\u2028") for n in range(3)]
    return [note.model_dump_json().encode() + b"\n" for note in notes]


@pytest.fixture
def append(tmp_path):
    def do(content):
        with (tmp_path / EVENTS_FILE).open("ab") as file:
            file.write(content)

    return do


def test_a_run_that_has_said_nothing_yet_is_waited_for(tmp_path):
    assert Follower(tmp_path).new_events() == []


def test_half_a_line_is_left_for_the_next_look(tmp_path, append, lines):
    follower = Follower(tmp_path)
    append(lines[0] + lines[1][:20])
    assert [event.message for event in follower.new_events()] == ["é 0\u2028"]
    follower.take()
    assert follower.line == 1
    assert follower.new_events() == []
    append(lines[1][20:] + lines[2])
    assert [event.message for event in follower.new_events()] == ["é 1\u2028", "é 2\u2028"]
    follower.take()
    assert follower.line == 3
    assert follower.new_events() == []


def test_what_was_not_taken_is_seen_again(tmp_path, append, lines):
    follower = Follower(tmp_path)
    append(lines[0])
    follower.new_events()
    append(lines[1])
    assert len(follower.new_events()) == 2
    assert follower.line == 0


class Interrupted(Pen):
    """The worker is told to end just before, or just after, the first write."""

    def __init__(self, *arguments, written_first):
        super().__init__(*arguments)
        self._interrupt = True
        self._written_first = written_first

    def write(self, change):
        interrupt, self._interrupt = self._interrupt, False
        if not interrupt or self._written_first:
            super().write(change)
        if interrupt:
            raise SystemExit


@pytest.mark.parametrize("written_first", [False, True])
def test_a_worker_that_ends_while_it_writes_loses_no_line_and_doubles_none(
    context, settings, add_job, claim, records, tmp_path, written_first
):
    lease = claim(add_job())
    with LeaseKeeper(context.database, lease, 60) as keeper:
        pen = Interrupted(context.database, keeper, written_first=written_first)
        watch = Watch(tmp_path, lease, None, None, keeper, pen, settings)
        journal = Journal(tmp_path)
        journal.note("first", "1")
        with pytest.raises(SystemExit):
            watch._take_events()
        journal.note("second", "2")
        journal.stopped(1)
        journal.close()
        watch._take_events()
    assert records.codes(lease.job_id)[-2:] == ["first", "second"]
    assert records.codes(lease.job_id).count("first") == 1
    assert isinstance(watch._last, Stopped)
    with context.database.begin() as session:
        assert session.scalar(select(AttemptRow.lines_followed)) == 3


def test_the_parts_that_a_run_counts_are_read_and_none_before_it_has_said_so(tmp_path):
    follower = Follower(tmp_path)
    assert follower.beats() == 0
    (tmp_path / BEAT_FILE).write_text('{"count": 7}\n')
    assert follower.beats() == 7
