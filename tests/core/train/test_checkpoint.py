"""A checkpoint that can be seen is whole, is kept while it is needed, and is a model like any other."""

import hashlib

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.spec.job import JobSpec
from core.spec.run import Manifest
from core.train.checkpoint import drop_old, is_whole, latest_checkpoint


@pytest.fixture
def run(make_spec, train):
    """Eight steps, a checkpoint every two, all kept."""
    return train(make_spec(trainer={"checkpoint": {"every": 2, "keep_last": 10}}))


@pytest.fixture
def folders(run):
    return sorted((run.directory / "checkpoints").iterdir())


def damage(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_checkpoints_appear_as_often_as_asked_and_at_the_end(run, folders):
    names = [f"step-0000000{step}" for step in (2, 4, 6, 8)]
    assert [folder.name for folder in folders] == names
    assert [event.path for event in run.of("saved")] == [f"checkpoints/{name}" for name in names]
    assert latest_checkpoint(run.directory) == folders[-1]


def test_the_manifest_names_every_file_with_its_hash(run):
    folder = run.checkpoint
    manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    found = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert {file.path for file in manifest.files} == found
    for file in manifest.files:
        content = (folder / file.path).read_bytes()
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    kinds = {file.path: file.kind for file in manifest.files}
    assert kinds["model.safetensors"] == "weights"
    assert kinds["training_state.pt"] == "state"
    assert kinds["config.json"] == "config"
    assert kinds["spec.json"] == "spec"
    assert kinds["tokenizer.json"] == "tokenizer"


def test_a_flipped_bit_sends_the_run_back_to_the_checkpoint_before(run, folders):
    for path in folders[-1].iterdir():
        for at in (0, -20):
            damage(path, at)
            assert not is_whole(folders[-1]), (path.name, at)
            assert latest_checkpoint(run.directory) == folders[-2]
            damage(path, at)
    assert is_whole(folders[-1])


def test_half_a_checkpoint_is_none(run, folders):
    (folders[-1] / "config.json").unlink()
    assert latest_checkpoint(run.directory) == folders[-2]
    folders[-2].rename(folders[-2].with_name(folders[-2].name + ".partial"))
    assert latest_checkpoint(run.directory) == folders[-3]


def test_a_run_goes_on_from_the_last_whole_checkpoint(make_spec, train, run, folders, bit_equal):
    weights, state = run.weights, run.state
    damage(folders[-1] / "model.safetensors", -1)
    damage(folders[-2] / "spec.json", 3)
    again = train(make_spec(trainer={"checkpoint": {"every": 2, "keep_last": 10}}))
    assert [event.step for event in again.of("started")] == [0, 4]
    assert bit_equal(again.weights, weights)
    assert bit_equal(again.state, state)


def test_only_the_last_are_kept(make_spec, train):
    run = train(make_spec(trainer={"checkpoint": {"every": 2, "keep_last": 2}}))
    left = sorted(path.name for path in (run.directory / "checkpoints").iterdir())
    assert left == ["step-00000006", "step-00000008"]


def test_what_is_not_whole_never_counts_among_the_kept(folders):
    _, second, third, _ = folders
    third.rename(third.with_name(third.name + ".partial"))
    drop_old(second, keep_last=1)
    assert sorted(second.parent.iterdir()) == [second]
    assert is_whole(second)


def test_the_stock_library_loads_it_without_a_missing_key(run, toy_model):
    model, info = AutoModelForCausalLM.from_pretrained(run.checkpoint, output_loading_info=True)
    assert not any(info.values())
    tensors = model.state_dict()
    for name, tensor in run.weights.items():
        assert torch.equal(tensors[name], tensor)
    before = AutoModelForCausalLM.from_pretrained(toy_model).state_dict()
    assert tensors.keys() == before.keys()
    assert not any(torch.equal(tensors[name], before[name]) for name in tensors)


def test_head_and_embedding_stay_one_weight(run):
    model = AutoModelForCausalLM.from_pretrained(run.checkpoint)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert "lm_head.weight" not in run.weights


def test_tokenizer_and_spec_lie_beside_the_weights(run, make_spec, toy_model):
    tokenizer = AutoTokenizer.from_pretrained(run.checkpoint)
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(toy_model).chat_template
    spec = JobSpec.model_validate_json((run.checkpoint / "spec.json").read_bytes())
    assert spec.trainer.tokens_per_pass == spec.trainer.context_length == 64
    assert spec.hyperparameters == make_spec().hyperparameters
