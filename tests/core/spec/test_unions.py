"""The field `kind` tells the members of a union apart; nobody has to type more than it."""

import pytest

from core.spec.job import JobSpec
from core.spec.objective import SftSpec
from core.spec.optimizer import AdamWSpec, ApolloMiniSpec, ApolloSpec, ScaleSpec, SgdSpec
from core.spec.schedule import ConstantSpec, CosineSpec, LinearSpec


@pytest.mark.parametrize(
    ("field", "kind", "member"),
    [
        ("optimizer", "apollo", ApolloSpec),
        ("optimizer", "apollo_mini", ApolloMiniSpec),
        ("optimizer", "scale", ScaleSpec),
        ("optimizer", "adamw", AdamWSpec),
        ("optimizer", "sgd", SgdSpec),
        ("schedule", "cosine", CosineSpec),
        ("schedule", "linear", LinearSpec),
        ("schedule", "constant", ConstantSpec),
    ],
)
def test_the_kind_alone_gives_the_whole_recipe(document, field, kind, member):
    spec = JobSpec.parse({**document, "trainer": {field: {"kind": kind}}})
    assert getattr(spec.trainer, field) == member()


@pytest.mark.parametrize("field", ["optimizer", "schedule"])
@pytest.mark.parametrize("value", [{"kind": "adam"}, {"kind": None}, {"kind": 3}, {}, "adamw"])
def test_an_unknown_or_missing_kind_is_refused_at_the_union(refused, field, value):
    problem = refused(f"trainer.{field}", value)[0]
    assert problem.path == f"trainer.{field}"


@pytest.mark.parametrize("field", ["optimizer", "schedule"])
def test_the_refusal_names_the_kinds_that_there_are(refused, field):
    problem = refused(f"trainer.{field}", {"kind": "nothing"})[0]
    for kind in {"optimizer": ["apollo_mini", "sgd"], "schedule": ["cosine", "linear"]}[field]:
        assert kind in problem.message


def test_a_fault_inside_a_member_has_the_path_that_was_typed(refused):
    problem = refused("trainer.optimizer.rank", 0)[0]
    assert problem.path == "trainer.optimizer.rank"


def test_the_objective_refuses_another_kind(refused):
    problem = refused("trainer.objective.kind", "ppo")[0]
    assert (problem.path, problem.code) == ("trainer.objective", "invalid_value")
    assert "pretrain, sft, dpo or grpo" in problem.message


def test_an_objective_without_a_kind_is_sft(document):
    spec = JobSpec.parse({**document, "trainer": {"objective": {"train_on": "all"}}})
    assert spec.trainer.objective == SftSpec(train_on="all")


def test_a_literal_lists_what_it_takes(refused):
    problem = refused("trainer.on_overlength", "truncate")[0]
    assert "'truncate_left'" in problem.message
