"""A number is finite and within its bounds; nothing is read into a text, boolean or fraction."""

import math

import pytest

from core.spec.job import JobSpec

INTEGERS = [
    "seed",
    "hyperparameters.n_epochs",
    "hyperparameters.batch_size",
    "trainer.context_length",
    "trainer.tokens_per_pass",
    "trainer.max_steps",
    "trainer.optimizer.rank",
    "trainer.optimizer.update_proj_gap",
    "trainer.stream.chunk_tokens",
    "trainer.stream.head_chunk_tokens",
    "trainer.checkpoint.every",
    "trainer.checkpoint.keep_last",
    "trainer.evaluation.every",
]
REALS = [
    "hyperparameters.learning_rate_multiplier",
    "trainer.learning_rate",
    "trainer.optimizer.scale",
    "trainer.optimizer.eps",
    "trainer.optimizer.beta1",
    "trainer.optimizer.beta2",
    "trainer.optimizer.weight_decay",
]


@pytest.mark.parametrize("path", INTEGERS)
@pytest.mark.parametrize("value", [-1, 10**12, 10**400, 1.5, 8.0, "8", True, math.nan, [8], {}])
def test_an_integer_is_nothing_but_an_integer_in_its_bounds(refused, path, value):
    problem = refused(path, value)[0]
    assert (problem.path, problem.code) == (path, "invalid_value")
    assert "got" in problem.message


@pytest.mark.parametrize("path", REALS)
@pytest.mark.parametrize(
    "value", [-1e-9, 1e12, math.nan, math.inf, -math.inf, "1e-4", False, 10**400, [1.0]]
)
def test_a_real_number_is_nothing_but_a_finite_number_in_its_bounds(refused, path, value):
    assert refused(path, value)[0].path == path


@pytest.mark.parametrize(
    "path",
    [path for path in INTEGERS if path != "seed"]
    + ["trainer.learning_rate", "trainer.optimizer.eps", "trainer.optimizer.scale"],
)
def test_zero_is_refused_where_it_means_nothing(refused, path):
    assert refused(path, 0)[0].path == path


@pytest.mark.parametrize("path", ["model", "training_file", "validation_file"])
@pytest.mark.parametrize("value", ["", "x" * 5000, 7, ["f"]])
def test_a_name_is_a_text_of_bearable_length(refused, path, value):
    assert refused(path, value)[0].path == path


def test_the_value_given_is_shown_but_never_at_full_length(refused):
    problem = refused("model", "x" * 5000)[0]
    assert "'xxx" in problem.message
    assert len(problem.message) < 250


def test_an_integer_will_do_for_a_real_number(document):
    spec = JobSpec.parse({**document, "trainer": {"learning_rate": 1}})
    assert spec.trainer.learning_rate == 1.0


def test_a_chunk_length_is_a_number_or_auto_and_nothing_else(document, refused):
    for value in ("auto", 7):
        spec = JobSpec.parse({**document, "trainer": {"stream": {"chunk_tokens": value}}})
        assert spec.trainer.stream.chunk_tokens == value
    (problem,) = refused("trainer.stream.chunk_tokens", "automatic")
    assert "a number of tokens or 'auto'" in problem.message


@pytest.mark.parametrize("field", ["keep", "store"])
@pytest.mark.parametrize("value", ["everything", "", None, 1])
def test_what_is_kept_and_where_are_words_of_a_list(refused, field, value):
    (problem,) = refused(f"trainer.stream.{field}", value)
    assert problem.path == f"trainer.stream.{field}"
    assert {"keep": "'hidden+kv'", "store": "'disk'"}[field] in problem.message


def test_every_fault_is_reported_at_once(refused):
    stream = {"chunk_tokens": 0, "head_chunk_tokens": -3}
    paths = [problem.path for problem in refused("trainer.stream", stream)]
    assert paths == ["trainer.stream.chunk_tokens", "trainer.stream.head_chunk_tokens"]
