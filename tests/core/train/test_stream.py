"""A job says in which chunks its model is streamed and what is kept where, and is told what came of it."""

import shutil
from typing import get_args

import pytest
from transformers import AutoTokenizer, DiffLlamaConfig, DiffLlamaForCausalLM, LlamaConfig

from core.spec.errors import ExitCode, RunFailure
from core.spec.job import JobSpec
from core.spec.trainer import StreamSpec
from core.streambp.policy import Keep, StoreName

ONE_STEP = {"max_steps": 1}


def notes(run, code):
    return [event for event in run.of("noted") if event.code == code]


def chunk_tokens(run):
    written = JobSpec.model_validate_json((run.checkpoint / "spec.json").read_bytes())
    return written.trainer.stream.chunk_tokens


def test_the_words_are_those_of_the_engine():
    fields = StreamSpec.model_fields
    assert get_args(fields["keep"].annotation) == get_args(Keep)
    assert get_args(fields["store"].annotation) == get_args(StoreName)


@pytest.mark.parametrize("keep", get_args(Keep))
@pytest.mark.parametrize("store", get_args(StoreName))
def test_whatever_is_kept_and_wherever_the_run_ends_alike(keep, store, make_spec, train):
    stream = {"chunk_tokens": 16, "keep": keep, "store": store}
    run = train(make_spec(trainer={**ONE_STEP, "stream": stream}))
    plain = train(make_spec(trainer=ONE_STEP), "plain")
    for name, weight in run.weights.items():
        assert weight.allclose(plain.weights[name], rtol=1e-5, atol=1e-7)
    assert not (run.directory / "kept").exists()
    assert len(notes(run, "stream.policy")) == (store == "cpu")


def test_auto_becomes_a_number_that_is_told_and_kept(make_spec, train):
    run = train(make_spec(trainer={**ONE_STEP, "stream": {}}))
    (note,) = notes(run, "chunk_tokens.chosen")
    assert note.level == "info"
    assert note.data["free_bytes"] > note.data["chunk_tokens"] == chunk_tokens(run) >= 512


def test_a_run_resumed_with_auto_keeps_the_chunks_it_began_with(make_spec, train, bit_equal):
    short, auto = {"stream": {"chunk_tokens": 16}}, {"stream": {"chunk_tokens": "auto"}}
    whole = train(make_spec(trainer=short), "whole")
    train(make_spec(trainer=short), "cut", stop_at=5)
    resumed = train(make_spec(trainer=auto), "cut")
    assert notes(resumed, "chunk_tokens.chosen") == []
    assert chunk_tokens(resumed) == 16
    assert bit_equal(resumed.weights, whole.weights)
    assert bit_equal(resumed.state, whole.state)


def test_auto_that_was_cut_off_ends_with_the_bits_of_auto_that_was_not(make_spec, train, bit_equal):
    spec = make_spec(trainer={"stream": {}})
    whole = train(spec, "whole")
    train(spec, "cut", stop_at=6)
    resumed = train(spec, "cut")
    assert [event.step > 0 for event in resumed.of("started")] == [False, True]
    assert bit_equal(resumed.weights, whole.weights)


def test_another_chunk_length_than_the_run_began_with_is_refused(make_spec, train):
    train(make_spec(), "cut", stop_at=4)
    with pytest.raises(RunFailure) as refused:
        train(make_spec(trainer={"stream": {"chunk_tokens": 17}}), "cut")
    assert refused.value.error.code == "checkpoint_not_resumable"


@pytest.mark.parametrize("stream", [{}, {"chunk_tokens": 16}], ids=["auto", "a number"])
def test_what_cannot_fit_is_refused_before_weights_are_loaded(
    make_spec, train, toy_model, tmp_path, stream
):
    folder = shutil.copytree(toy_model, tmp_path / "huge")
    (folder / "model.safetensors").unlink()
    LlamaConfig(
        hidden_size=2**15, num_hidden_layers=128, vocab_size=258, max_position_embeddings=512
    ).save_pretrained(folder)
    with pytest.raises(RunFailure) as refused:
        train(make_spec(model=str(folder), trainer={"stream": stream}))
    error = refused.value.error
    assert (error.code, error.param, error.fault) == (
        "insufficient_memory", "trainer.context_length", "capacity",
    )  # fmt: skip
    assert "GiB" in error.message
    assert refused.value.exit_code is ExitCode.out_of_memory


def test_a_store_that_cannot_be_made_is_refused_by_its_name(make_spec, train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").write_text("in the way")
    with pytest.raises(RunFailure) as refused:
        train(make_spec(trainer={"stream": {"chunk_tokens": 16, "store": "disk"}}))
    error = refused.value.error
    assert (error.code, error.param) == ("store_not_writable", "trainer.stream.store")
    assert "File exists" in error.message
    assert refused.value.exit_code is ExitCode.disk


def test_layers_that_cannot_be_streamed_or_planned_for_are_told_by_name(
    make_spec, train, toy_model, tmp_path
):
    folder = tmp_path / "diff"
    AutoTokenizer.from_pretrained(toy_model).save_pretrained(folder)
    DiffLlamaForCausalLM(DiffLlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=258, max_position_embeddings=512,
    )).save_pretrained(folder)  # fmt: skip
    run = train(make_spec(model=str(folder), trainer={**ONE_STEP, "stream": {}}))
    told = notes(run, "layers.checkpointed")
    names = [name for note in told for name in note.data["names"].split(", ")]
    assert sorted(names) == ["layers.0", "layers.1"]
    assert sum(note.data["layers"] for note in told) == 2
    assert all(note.data["reason"] in note.message for note in told)
    (unplanned,) = notes(run, "chunk_tokens.unplanned")
    assert unplanned.level == "warn"
    assert chunk_tokens(run) == unplanned.data["chunk_tokens"]
