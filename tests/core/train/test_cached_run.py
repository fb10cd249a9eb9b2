"""A run on kept rows is the run on the file, and says so."""

import pytest

from core.train.cache import CachePlace

CUT = {"context_length": 36, "on_overlength": "truncate_right"}


@pytest.fixture
def place(tmp_path):
    return CachePlace(tmp_path / "cache", 10**6)


@pytest.fixture
def spec(make_spec, training_path, tmp_path):
    """Some rows are cut, and one stands in the validation file too."""
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_bytes(training_path.read_bytes().splitlines(keepends=True)[2])
    return make_spec(validation_file=str(held_out), trainer=CUT)


def cached(run):
    return [[file.cached for file in started.files] for started in run.of("started")]


def told(run):
    """What a run says of its rows, without where they were found."""
    notes = [(note.code, note.message, note.data) for note in run.of("noted")]
    files = [file.model_copy(update={"cached": False}) for file in run.of("started")[0].files]
    return notes, files


def test_losses_weights_and_words_are_the_same_with_kept_rows(spec, train, place, bit_equal):
    without, first, second = (
        train(spec, name, cache=cache)
        for name, cache in (("without", None), ("first", place), ("second", place))
    )
    assert [cached(run) for run in (without, first, second)] == [
        [[False, False]],
        [[False, False]],
        [[True, True]],
    ]
    for run in (first, second):
        assert run.steps == without.steps
        assert bit_equal(run.weights, without.weights)
        assert told(run) == told(without)
    codes = {note.code for note in second.of("noted")}
    assert {"rows.changed", "rows.in_both_files"} <= codes
    assert "training_file: 7 rows" in second.of("started")[0].words
    assert ", cached;" in second.of("started")[0].words


def test_a_resumed_run_finds_its_rows(make_spec, train, place):
    train(make_spec(), "cut", stop_at=5, cache=place)
    assert cached(train(make_spec(), "cut", cache=place)) == [[False], [True]]


def test_a_truncated_entry_is_told_and_made_again(make_spec, train, place, bit_equal):
    first = train(make_spec(), "first", cache=place)
    (entry,) = place.folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    second = train(make_spec(), "second", cache=place)
    (note,) = (event for event in second.of("noted") if event.code == "rows.not_cached")
    assert (note.level, str(entry) in note.message) == ("warn", True)
    assert cached(second) == [[False]]
    assert bit_equal(second.weights, first.weights)
    assert entry.read_bytes() == whole
