"""A typo is refused where it stands, at every depth, with the closest guess."""

import pytest

from core.spec.job import JobSpec
from core.spec.tree import SpecError


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("modell", "model"),
        ("hyperparameters.n_epoch", "n_epochs"),
        ("trainer.context_lenght", "context_length"),
        ("trainer.objective.train_onn", "train_on"),
        ("trainer.optimizer.rnak", "rank"),
        ("trainer.schedule.warmup_ration", "warmup_ratio"),
        ("trainer.stream.chunk_token", "chunk_tokens"),
        ("trainer.checkpoint.keep_lats", "keep_last"),
        ("trainer.evaluation.evry", "every"),
    ],
)
def test_a_typo_is_refused_with_its_path_and_a_guess(document, refused, path, meant):
    if path.startswith("trainer.schedule"):
        document["trainer"] = {"schedule": {"kind": "cosine"}}
    (problem,) = refused(path, 1)
    assert (problem.path, problem.code) == (path, "unknown_parameter")
    assert f"did you mean '{meant}'?" in problem.message


def test_a_key_that_resembles_nothing_is_refused_with_the_known_ones(refused):
    (problem,) = refused("trainer.xyzzy", 1)
    assert "did you mean" not in problem.message
    for known in ("context_length", "optimizer", "stream"):
        assert known in problem.message


def test_a_key_of_another_kind_of_optimizer_is_refused(document, refused):
    document["trainer"] = {"optimizer": {"kind": "sgd"}}
    (problem,) = refused("trainer.optimizer.rank", 8)
    assert problem.path == "trainer.optimizer.rank"


def test_a_key_that_is_called_like_its_kind_has_the_path_that_was_typed(refused):
    (problem,) = refused("trainer.optimizer.apollo", {"rank": 8})
    assert problem.path == "trainer.optimizer.apollo"


def test_half_a_surrogate_pair_as_a_key_is_refused_in_words_that_can_be_sent(refused):
    (problem,) = refused("trainer.\ud800", 1)
    assert problem.path == "trainer.\\ud800"
    problem.message.encode()


def test_a_prefix_stands_before_every_path():
    with pytest.raises(SpecError) as refusal:
        JobSpec.parse({"model": "m", "training_file": "t", "tariner": {}}, path="jobs[0]")
    assert refusal.value.problems[0].path == "jobs[0].tariner"


def test_missing_fields_are_all_named():
    with pytest.raises(SpecError) as refusal:
        JobSpec.parse({})
    problems = refusal.value.problems
    assert [problem.path for problem in problems] == ["model", "training_file"]
    assert {problem.code for problem in problems} == {"missing_required_parameter"}


@pytest.mark.parametrize("value", [None, [], "trainer", 3, True])
def test_what_is_no_object_is_refused(refused, value):
    assert refused("trainer", value)[0].path == "trainer"
