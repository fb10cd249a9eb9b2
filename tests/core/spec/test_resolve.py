"""Resolving fills in what depends on the model, once and for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.spec.job import DEFAULT_CONTEXT, Hyperparameters, JobSpec
from core.spec.model import ModelFacts
from core.spec.optimizer import AdamWSpec, SgdSpec
from core.spec.trainer import TrainerSpec
from core.spec.tree import SpecError

SPEC = JobSpec(model="m", training_file="t")


def facts(longest_context: int | None) -> ModelFacts:
    return ModelFacts(name="m", architecture="A", longest_context=longest_context, vocabulary=64)


@given(
    context=st.none() | st.integers(8, 512),
    rate=st.none() | st.floats(1e-9, 10.0),
    multiplier=st.floats(1e-3, 1e3),
    tokens=st.none() | st.integers(1, 4096),
    limit=st.none() | st.integers(512, 2**20),
)
def test_resolving_twice_is_resolving_once(context, rate, multiplier, tokens, limit):
    trainer = TrainerSpec(context_length=context, learning_rate=rate, tokens_per_pass=tokens)
    numbers = Hyperparameters(learning_rate_multiplier=multiplier)
    spec = SPEC.model_copy(update={"trainer": trainer, "hyperparameters": numbers})
    once = spec.resolved(facts(limit))
    assert once.resolved(facts(limit)) == once
    assert JobSpec.parse(once.model_dump(mode="json")) == once


def test_what_was_given_is_kept():
    trainer = TrainerSpec(
        context_length=64,
        learning_rate=3e-4,
        tokens_per_pass=256,
        step="two_phase",
        on_overlength="drop",
        packing=True,
    )
    spec = SPEC.model_copy(update={"trainer": trainer})
    assert spec.resolved(facts(512)) == spec


@pytest.mark.parametrize(
    ("objective", "policy", "packing"), [("pretrain", "split", True), ("sft", "error", False)]
)
def test_plain_text_is_split_and_packed_where_nothing_else_is_said(objective, policy, packing):
    spec = SPEC.model_copy(
        update={"trainer": TrainerSpec.parse({"objective": {"kind": objective}})}
    )
    trainer = spec.resolved(facts(512)).trainer
    assert (trainer.on_overlength, trainer.packing) == (policy, packing)


@pytest.mark.parametrize(
    ("trainer", "path"),
    [
        ({"objective": {"kind": "dpo"}, "packing": True}, "trainer.packing"),
        ({"objective": {"kind": "dpo"}, "on_overlength": "split"}, "trainer.on_overlength"),
        ({"objective": {"kind": "dpo"}, "step": "fused"}, "trainer.step"),
        ({"early_stopping": {}}, "trainer.early_stopping"),
        ({"checkpoint": {"keep_best": "full_valid_loss"}}, "trainer.checkpoint.keep_best"),
    ],
)
def test_words_that_do_not_go_together_are_refused_by_name(trainer, path):
    spec = SPEC.model_copy(update={"trainer": TrainerSpec.parse(trainer)})
    with pytest.raises(SpecError) as refusal:
        spec.resolved(facts(512))
    assert [problem.path for problem in refusal.value.problems] == [path]


@pytest.mark.parametrize(
    ("limit", "context"), [(None, DEFAULT_CONTEXT), (512, 512), (10**6, DEFAULT_CONTEXT)]
)
def test_the_context_is_the_models_within_the_default(limit, context):
    trainer = SPEC.resolved(facts(limit)).trainer
    assert (trainer.context_length, trainer.tokens_per_pass) == (context, context)


def test_a_context_beyond_the_models_is_refused_with_the_limit():
    spec = SPEC.model_copy(update={"trainer": TrainerSpec(context_length=513)})
    with pytest.raises(SpecError) as refusal:
        spec.resolved(facts(512))
    (problem,) = refusal.value.problems
    assert (problem.path, problem.code) == ("trainer.context_length", "context_length_exceeded")
    assert "at most 512" in problem.message
    assert spec.resolved(facts(513)).trainer.context_length == 513


@pytest.mark.parametrize("optimizer", [AdamWSpec(), SgdSpec()])
def test_the_multiplier_multiplies_the_optimizers_own_rate(optimizer):
    spec = SPEC.model_copy(
        update={
            "trainer": TrainerSpec(optimizer=optimizer),
            "hyperparameters": Hyperparameters(learning_rate_multiplier=2.0),
        }
    )
    rate = spec.resolved(facts(512)).trainer.learning_rate
    assert rate == 2.0 * optimizer.base_learning_rate


@pytest.mark.parametrize("multiplier", [1e4, 5e-324])
def test_a_multiplier_that_makes_an_absurd_rate_is_refused_by_its_own_name(multiplier):
    spec = SPEC.model_copy(
        update={
            "trainer": TrainerSpec(optimizer=SgdSpec()),
            "hyperparameters": Hyperparameters(learning_rate_multiplier=multiplier),
        }
    )
    with pytest.raises(SpecError) as refusal:
        spec.resolved(facts(512))
    assert refusal.value.problems[0].path == "hyperparameters.learning_rate_multiplier"
