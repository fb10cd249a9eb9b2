"""A damaged checkpoint is told by its file, the one before it is taken, and nothing is ever begun anew."""

import json

import pytest
import torch

from core.spec.errors import RunFailure
from core.spec.run import CHECKPOINT_FORMAT, Manifest
from core.train import disk
from core.train.checkpoint import latest_checkpoint, manifest_of

EVERY_TWO = {"checkpoint": {"every": 2, "keep_last": 10}}


@pytest.fixture
def run(make_spec, train):
    return train(make_spec(trainer=EVERY_TWO))


@pytest.fixture
def folders(run):
    return sorted((run.directory / "checkpoints").iterdir(), reverse=True)


@pytest.fixture
def again(make_spec, train):
    return lambda: train(make_spec(trainer=EVERY_TWO))


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def told(run):
    return [event for event in run.of("noted") if event.code == "checkpoint.damaged"]


def change_manifest(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def test_a_flipped_byte_is_told_with_its_file_and_the_run_goes_on_from_before(folders, again):
    flip(folders[0] / "training_state.pt", 99)
    (note,) = told(again())
    assert note.level == "warn"
    assert note.data == {"checkpoint": "step-00000008", "instead": "step-00000006"}
    assert "training_state.pt of step-00000008 is not what was saved" in note.message


def test_where_all_are_damaged_the_run_fails_and_may_be_tried_again(folders, again):
    for folder in folders:
        flip(folder / "model.safetensors")
    with pytest.raises(RunFailure) as failure:
        again()
    error = failure.value.error
    assert (error.code, error.fault, error.retryable) == ("checkpoint_damaged", "platform", True)
    assert "model.safetensors of step-00000008" in error.message


def test_a_state_that_came_out_otherwise_than_it_was_saved_is_refused(
    run, folders, again, bit_equal
):
    weights = run.weights
    change_manifest(folders[0], digest="0" * 64)
    resumed = again()
    (note,) = told(resumed)
    assert "the state of step-00000008" in note.message
    assert [event.step for event in resumed.of("started")] == [0, 6]
    assert bit_equal(resumed.weights, weights)


def test_a_checkpoint_of_a_newer_version_is_refused_with_what_is_needed(folders, again):
    change_manifest(folders[0], format=CHECKPOINT_FORMAT + 1, unheard_of=1)
    with pytest.raises(RunFailure) as failure:
        again()
    error = failure.value.error
    assert (error.code, error.fault) == ("checkpoint_not_resumable", "user")
    assert f"has format {CHECKPOINT_FORMAT + 1}" in error.message
    assert f"writes checkpoints of format {CHECKPOINT_FORMAT + 1}" in error.hint


def test_a_checkpoint_of_an_older_version_is_gone_on_from(run, folders, again, bit_equal):
    weights = run.weights
    for folder in folders[:1]:
        (folder / "manifest.json").unlink()
    old = folders[1]
    state = torch.load(old / "training_state.pt", weights_only=True)
    del state["skips"]
    torch.save(state, old / "training_state.pt")
    path = old / "manifest.json"
    manifest = Manifest.model_validate_json(path.read_bytes())
    files = [file for file in manifest.files if file.path != "training_state.pt"]
    path.write_text(json.dumps({"step": 6, "files": [file.model_dump() for file in files]}))
    assert manifest_of(old).format == 1
    resumed = again()
    assert resumed.of("started")[-1].step == 6
    assert bit_equal(resumed.weights, weights)


def test_without_room_nothing_is_written_and_what_was_whole_stays(
    make_spec, train, run, folders, monkeypatch
):
    class Usage:
        free = 4096

    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: Usage)
    for folder in folders[:1]:
        flip(folder / "model.safetensors")
    with pytest.raises(RunFailure) as failure:
        train(make_spec(trainer=EVERY_TWO))
    error = failure.value.error
    assert (error.code, error.fault, error.retryable) == ("insufficient_disk", "platform", True)
    assert "4,096 are free" in error.message
    assert latest_checkpoint(run.directory) == folders[1]
    assert not list(run.directory.glob("checkpoints/*.partial"))
