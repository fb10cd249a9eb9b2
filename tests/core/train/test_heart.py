"""A run tells that it gets on also where it has no event to tell: parts of its work are counted in a file."""

import json

import pytest

from core.spec.run import BEAT_FILE, EVENTS_FILE, Beat
from core.train.heart import EVERY_S, Heart


def count(directory):
    return Beat.model_validate_json((directory / BEAT_FILE).read_bytes()).count


def test_all_beats_are_counted_and_few_are_written(tmp_path):
    now = [0.0]
    heart = Heart(tmp_path, lambda: now[0])
    heart.beat()
    heart.beat()
    assert count(tmp_path) == 1
    now[0] += EVERY_S
    heart.beat()
    assert count(tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == [BEAT_FILE]


def test_a_folder_that_takes_nothing_ends_no_run(tmp_path):
    Heart(tmp_path / "gone").beat()


@pytest.fixture
def beats(monkeypatch):
    """How many events a run had told at each of its beats."""
    told = []

    def beat(heart):
        events = heart._path.with_name(EVENTS_FILE)
        told.append(len(events.read_bytes().splitlines()))

    monkeypatch.setattr(Heart, "beat", beat)
    return told


@pytest.fixture
def between(beats, make_spec, train, training_path, objective_of, row_of):
    """Beats of a run of one step: before it began, while it evaluated at first, within the step."""

    def run(kind, **trainer):
        rows = "".join(json.dumps(row_of(kind, n, n)) + "\n" for n in range(5))
        training_path.write_text(rows)
        words = {"objective": objective_of(kind), "max_steps": 1, **trainer}
        run = train(make_spec(validation_file=str(training_path), trainer=words))
        kinds = [event.kind for event in run.events]
        ends = [kinds.index(kind) for kind in ("started", "evaluated", "step")]
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [
            sum(start <= told <= end for told in beats)
            for start, end in zip(starts, ends, strict=True)
        ]

    return run


def test_evaluation_and_step_beat_with_every_pass(between):
    began, evaluated, step = between("sft", tokens_per_pass=64)
    assert began == 0
    assert 3 <= evaluated <= 5  # of five short rows some go through together
    assert 1 <= step <= 2


def test_the_canary_beats_before_the_run_begins(between):
    assert between("sft", tokens_per_pass=64, canary=True)[0] > 0


def test_so_do_the_passes_of_the_reference_of_preferences(between):
    began, evaluated, _ = between("dpo", tokens_per_pass=64)
    assert began == 2 * evaluated > 0


def test_sampling_and_grading_beat(between):
    _, evaluated, step = between("grpo", tokens_per_pass=64)
    answers = 5 + 2 * 2
    assert evaluated > 5
    assert evaluated + step > answers
