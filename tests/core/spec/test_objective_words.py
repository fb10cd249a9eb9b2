"""Words of an objective that mean nothing together are refused at submission, by name."""

import pytest

from core.spec.job import JobSpec


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"loss": "ipo", "label_smoothing": 0.1}, "label_smoothing"),
        ({"loss": "hinge", "label_smoothing": 0.1}, "label_smoothing"),
        ({"loss": "ipo", "target_margin": 1.0}, "target_margin"),
        ({"loss": "robust", "label_smoothing": 0.0}, "label_smoothing"),
    ],
)
def test_a_word_that_its_loss_does_not_read_is_refused_where_it_stands(words, field, refused):
    (problem,) = refused("trainer.objective", {"kind": "dpo", **words})
    assert problem.path == f"trainer.objective.{field}"
    assert words["loss"] in problem.message
    assert field in problem.message


def test_a_word_that_its_loss_needs_is_asked_for_by_name(refused):
    (problem,) = refused("trainer.objective", {"kind": "dpo", "loss": "robust"})
    assert problem.path == "trainer.objective"
    assert "label_smoothing must be above 0" in problem.message


@pytest.mark.parametrize(
    "words",
    [
        {"loss": "sigmoid", "label_smoothing": 0.1, "target_margin": 1.0},
        {"loss": "robust", "label_smoothing": 0.1, "target_margin": 1.0},
        {"loss": "hinge", "target_margin": 1.0},
        {"loss": "ipo", "nll_weight": 1.0, "length_normalised": True},
    ],
)
def test_words_that_mean_something_together_are_taken(words, document):
    spec = JobSpec.parse({**document, "trainer": {"objective": {"kind": "dpo", **words}}})
    assert words.items() <= spec.trainer.objective.model_dump().items()
