"""A whole run on int8 weights: it learns, what it saves is ordinary, and it goes on bit for bit."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from core.optim import exact_state, quantise_model

INT8 = {"precision": "int8", "optimizer": {"kind": "apollo_mini", "embeddings": "apollo"}}
ONE_PASS = {**INT8, "tokens_per_pass": 128}


@pytest.mark.parametrize("trainer", [INT8, ONE_PASS], ids=["two_phase", "fused"])
def test_it_learns_and_saves_weights_that_anybody_can_load(trainer, make_spec, train):
    run = train(make_spec(trainer=trainer, hyperparameters={"n_epochs": 6}))
    losses = [metrics["train_loss"] for metrics in run.steps.values()]
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])
    plain = AutoModelForCausalLM.from_pretrained(run.checkpoint)
    assert {p.dtype for p in plain.parameters()} == {torch.float32}
    held = run.state["weights"]
    assert {x.dtype for name, x in held.items() if name.endswith(".codes")} == {torch.int8}
    quantise_model(plain)  # a dequantised weight gives its own codes back
    again = exact_state(plain)
    assert again.keys() == held.keys()
    assert all(torch.equal(again[name], held[name]) for name in held)


def test_a_run_that_was_stopped_goes_on_bit_equal(make_spec, train):
    spec = make_spec(trainer=ONE_PASS)
    whole = train(spec, "whole")
    train(spec, "parts", stop_at=6)
    parts = train(spec, "parts")
    assert len(parts.of("started")) == 2
    want, got = whole.state["weights"], parts.state["weights"]
    assert all(torch.equal(got[name], want[name]) for name in want)
    assert all(torch.equal(parts.weights[name], x) for name, x in whole.weights.items())


def test_fused_and_two_phase_give_the_same_codes(make_spec, train):
    fused, apart = (
        train(make_spec(trainer={**ONE_PASS, "step": step}), step).state["weights"]
        for step in ("fused", "two_phase")
    )
    assert all(torch.equal(fused[name], apart[name]) for name in apart)
