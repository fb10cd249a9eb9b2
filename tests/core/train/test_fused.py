"""Stepping inside the backward pass: the same weights, and only where a step is one pass."""

import pytest
import torch

from core.spec.model import ModelFacts
from core.spec.tree import SpecError

FACTS = ModelFacts(name="m", architecture="A", longest_context=4096, vocabulary=64)

ONE_PASS = {"tokens_per_pass": 128, "precision": "float32"}  # two rows of at most 64
OPTIMIZERS = {
    "apollo_mini": {"kind": "apollo_mini", "embeddings": "apollo"},
    "apollo": {"kind": "apollo", "rank": 4},
}


def same(a, b):
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_fused_step_gives_the_weights_and_metrics_of_two_phases(kind, make_spec, train):
    fused, apart = (
        train(make_spec(trainer={**ONE_PASS, "optimizer": OPTIMIZERS[kind], "step": step}), step)
        for step in ("fused", "two_phase")
    )
    assert same(fused.weights, apart.weights)
    assert fused.steps.keys() == apart.steps.keys()
    for step, metrics in fused.steps.items():
        assert metrics == pytest.approx(apart.steps[step], rel=1e-6)
    assert not same(fused.weights, train(make_spec(), "other").weights)


def test_a_fused_run_that_was_stopped_goes_on_bit_equal(make_spec, train):
    spec = make_spec(trainer={**ONE_PASS, "step": "fused"})
    whole = train(spec, "whole")
    train(spec, "parts", stop_at=6)
    parts = train(spec, "parts")
    assert len(parts.of("started")) == 2
    assert same(parts.weights, whole.weights)


def test_auto_is_fused_where_one_pass_is_sure_and_is_told(make_spec, train):
    told = {}
    for tokens in (128, 64):
        run = train(make_spec(trainer={"tokens_per_pass": tokens}), str(tokens))
        told[tokens] = [e.data["step"] for e in run.of("noted") if e.code == "step.chosen"]
    assert told == {128: ["fused"], 64: ["two_phase"]}


def test_bfloat16_weights_learn_and_are_saved_so(make_spec, train):
    trainer = {**ONE_PASS, "precision": "bfloat16", "optimizer": OPTIMIZERS["apollo_mini"]}
    run = train(make_spec(trainer=trainer, hyperparameters={"n_epochs": 6}), "run")
    assert {x.dtype for x in run.weights.values()} == {torch.bfloat16}
    losses = [metrics["train_loss"] for metrics in run.steps.values()]
    assert sum(losses[-4:]) < sum(losses[:4])


def test_a_bfloat16_run_that_was_stopped_goes_on_bit_equal(make_spec, train):
    spec = make_spec(trainer={**ONE_PASS, "precision": "bfloat16"})
    whole = train(spec, "whole")
    train(spec, "parts", stop_at=6)
    assert same(train(spec, "parts").weights, whole.weights)


@pytest.mark.parametrize(
    ("trainer", "path", "remedy"),
    [
        ({"step": "fused"}, "trainer.step", "set trainer.tokens_per_pass to 128"),
        (
            {**ONE_PASS, "step": "fused", "optimizer": {"kind": "adamw"}},
            "trainer.step",
            "two_phase",
        ),
        (
            {"precision": "bfloat16", "optimizer": {"kind": "sgd"}},
            "trainer.precision",
            "apollo_mini",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_the_job_is_resolved(trainer, path, remedy, make_spec):
    with pytest.raises(SpecError) as caught:
        make_spec(trainer=trainer).resolved(FACTS)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert remedy in problem.message
