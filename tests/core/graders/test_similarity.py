"""Likenesses are those of the published definitions, worked out by hand."""

import math

import pytest

A, B = "the cat sat on a mat", "the cat sat on the mat"


@pytest.fixture
def likeness(graded):
    def run(metric, text, reference, **more):
        document = {
            "type": "text_similarity",
            "input": "{{ sample.output_text }}",
            "reference": "{{ item.r }}",
            "evaluation_metric": metric,
            **more,
        }
        return graded(document, text, {"r": reference})

    return run


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("fuzzy_match", 1 - 4 / (20 + 22)),  # a→the: one deletion, three insertions
        ("bleu", (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25),
        ("gleu", 11 / 18),
        ("rouge_1", 5 / 6),
        ("rouge_2", 3 / 5),
        ("rouge_4", 1 / 3),
        ("rouge_5", 0.0),
        ("rouge_l", 5 / 6),
    ],
)
def test_a_likeness_is_the_one_of_its_definition(likeness, metric, wanted):
    grade = likeness(metric, A, B)
    assert not grade.errors, grade.errors
    assert math.isclose(grade.reward, wanted, rel_tol=1e-9)


@pytest.mark.parametrize("metric", ["fuzzy_match", "bleu", "gleu", "rouge_3"])
def test_a_text_is_wholly_like_itself_and_nothing_like_another(likeness, metric):
    assert math.isclose(likeness(metric, B, B).reward, 1.0)
    assert likeness(metric, B, B).reward <= 1.0
    assert likeness(metric, "", B).reward == 0.0


def test_a_threshold_makes_a_likeness_pass_or_fail(likeness):
    rewards = [likeness("rouge_1", A, B, pass_threshold=t).reward for t in (0.83, 0.84)]
    assert rewards == [1.0, 0.0]
