"""A step whose loss or gradient is not finite changes nothing, is counted, and many in a row end the run."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer

from core.data.encoded import Encoded
from core.models.adapter import with_adapter
from core.models.load import load_model
from core.optim import quantise_model
from core.spec.adapter import LoraSpec
from core.spec.errors import ExitCode, RunFailure
from core.streambp import attach
from core.train.checkpoint import load_state
from core.train.inputs import model_facts
from core.train.learner import Learner
from core.train.lessons.supervised import SupervisedLesson
from core.train.optimizer import build_optimizer
from core.train.skips import SHOWN_LINES, Skips, finite_part, shown_lines

FUSED = {"tokens_per_pass": 128, "step": "fused"}
EVERY_STEP = {"checkpoint": {"every": 1, "keep_last": 20}}
DPO = {"learning_rate": 1e-4}


@pytest.fixture
def poisoned(toy_model, tmp_path):
    """A toy whose embedding of Q is infinite: a row with a Q has no finite loss, all others have one."""
    folder = shutil.copytree(toy_model, tmp_path / "poisoned")
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    token = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("Q")
    weights["model.embed_tokens.weight"][token] = float("inf")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = AutoConfig.from_pretrained(folder)
    config.tie_word_embeddings = False
    config.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def spec_of(poisoned, make_spec, training_path, objective_of, row_of):
    """A spec over seven rows, of which those on the lines `bad` hold a Q; line 2 of the file is empty."""

    def row(line, kind, bad):
        return json.dumps(row_of(kind, line, line % 3, "Q" if bad else "W"))

    def make(bad, numbers=None, kind="sft", **trainer):
        rows = [row(line, kind, line in bad) for line in (1, *range(3, 9))]
        training_path.write_text("\n".join([rows[0], "", *rows[1:]]) + "\n")
        return make_spec(
            model=poisoned,
            trainer={"objective": objective_of(kind)} | EVERY_STEP | trainer,
            hyperparameters=numbers or {},
        )

    return make


@pytest.mark.parametrize(
    ("kind", "trainer"),
    [
        ("sft", {}),
        ("sft", FUSED),
        ("sft", {"adapter": {"kind": "lora", "rank": 2}}),
        ("sft", {"precision": "bfloat16"}),
        ("dpo", DPO),
        ("grpo", {}),
    ],
    ids=["two_phase", "fused", "lora", "bfloat16", "dpo", "grpo"],
)
def test_a_bad_row_costs_its_step_and_nothing_else(spec_of, train, bit_equal, kind, trainer):
    run = train(spec_of({5}, kind=kind, **trainer))
    notes = [event for event in run.of("noted") if event.code == "step.skipped"]
    if kind != "grpo":  # there an answer may hold a Q as well
        assert len(notes) == 2  # once an epoch
    for note in notes:
        assert note.level == "warn"
        assert kind == "grpo" or "5" in note.data["lines"].split(", ")
        assert "train_loss" in note.data["not_finite"]
        before, after = (
            load_state(run.directory / "checkpoints" / f"step-{step:08d}")
            for step in (note.data["step"] - 1, note.data["step"])
        )
        states = [s["optimizer"]["state"] for s in (before, after)]
        assert bit_equal(*states)
        assert before["trained_tokens"] == after["trained_tokens"]
    (finished,) = run.of("finished")
    assert finished.step == 8
    assert run.steps[8]["skipped_steps"] == len(notes) >= 2
    lost = {note.data["step"] for note in notes}
    assert {step for step, metrics in run.steps.items() if "train_loss" not in metrics} == lost
    assert all(x - x == 0 for metrics in run.steps.values() for x in metrics.values())


def test_too_many_in_a_row_fail_the_job_and_name_all_their_lines(spec_of, train):
    numbers = {"batch_size": 7, "n_epochs": 4}
    with pytest.raises(RunFailure) as failure:
        train(spec_of({5, 6}, numbers, max_skipped_steps=2))
    error = failure.value.error
    assert (error.code, failure.value.exit_code) == ("loss_not_finite", ExitCode.diverged)
    assert "at step 3, the last of 3 in a row (lines 1, 3, 4, 5, 6, 7, 8)" in error.message
    assert (error.param, error.last_step) == ("trainer.learning_rate", 2)


def test_a_resumed_run_goes_on_counting(spec_of, train):
    spec = spec_of({5}, {"batch_size": 7, "n_epochs": 4}, max_skipped_steps=2)
    train(spec, stop_at=6)  # after its second step
    with pytest.raises(RunFailure) as failure:
        train(spec)
    assert "at step 3, the last of 3 in a row" in failure.value.error.message


@pytest.fixture
def learner(make_spec, toy_model):
    """A learner of one row; the gradient of one layer's weight is infinite."""

    def make(*, int8=False, lora=False, fused=False):
        trainer = FUSED if fused else {}
        spec = make_spec(trainer=trainer).resolved(model_facts(str(toy_model), "toy"))
        model = load_model(toy_model, torch.device("cpu"))
        if int8:
            quantise_model(model)
        if lora:
            with_adapter(model, LoraSpec(rank=2), seed=0, base="")
        attach(model, chunk_tokens=16)
        first = (p for n, p in model.named_parameters() if "layers.0" in n and p.requires_grad)
        broken = next(first)
        broken.register_hook(lambda grad: grad * float("inf"))
        row = Encoded(list(range(5, 37)), [False] + [True] * 31, 1)
        lesson = SupervisedLesson(spec, model, AutoTokenizer.from_pretrained(toy_model), [row], [])
        return Learner(spec, lesson, build_optimizer(spec, model)), broken

    return make


@pytest.mark.parametrize("kind", [{}, {"int8": True}, {"lora": True}], ids=str)
def test_one_gradient_that_is_not_finite_keeps_every_weight(learner, kind):
    learner, _ = learner(**kind)
    before = [p.detach().clone() for p in learner.model.parameters()]
    learnt = learner.step([0], 1, learning_rate=1.0)
    _, broken = finite_part(learnt.metrics)
    assert broken == ["grad_norm"]
    assert all(map(torch.equal, before, learner.model.parameters()))
    assert not learner.optimizer.state


def test_a_fused_step_leaves_the_weights_whose_gradient_is_not_finite(learner):
    learner, spoilt = learner(fused=True)
    before = spoilt.detach().clone()
    _, broken = finite_part(learner.step([0], 1, learning_rate=1.0).metrics)
    assert broken == ["grad_norm"]
    assert torch.equal(spoilt, before)
    assert all(bool(p.isfinite().all()) for p in learner.model.parameters())


def test_a_step_that_counts_ends_the_row_of_skipped_ones():
    skips = Skips(most=1)
    seen = [
        skips.see(step, names, [step])
        for step, names in enumerate([["train_loss"], [], ["grad_norm"], ["kl"]], 1)
    ]
    assert seen == [True, False, True, False]
    assert (skips.total, skips.in_a_row) == (2, 0)


def test_without_patience_the_first_ends_the_run():
    with pytest.raises(RunFailure, match=r"grad_norm not finite at step 9 \(lines 4\)"):
        Skips(most=0).see(9, ["grad_norm"], [4])


def test_lines_beyond_those_shown_are_counted():
    assert shown_lines(range(SHOWN_LINES + 2)).endswith(f"{SHOWN_LINES - 1} and 2 more")
