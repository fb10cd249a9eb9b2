"""What an answer's log-probability is: the sum over its own tokens, wherever they stand."""

import pytest
import torch

from core.objectives import AnswerError, answer_sums
from core.objectives.answers import Answers


def test_tokens_count_for_their_own_answer_only():
    logp = torch.tensor([[0.0, -1.0, -2.0, -4.0], [9.0, -8.0, -16.0, 9.0]])
    answer = torch.tensor([[-1, 0, 0, 1], [-1, 2, 2, -1]])
    sums, tokens = answer_sums(logp, answer, 4)
    assert sums.tolist() == [-3.0, -4.0, -24.0, 0.0]
    assert tokens.tolist() == [2, 1, 2, 0]


def test_the_mean_of_an_answer_without_tokens_is_zero():
    of = Answers.of(torch.tensor([[0, -1, 0, 2]], dtype=torch.int8), 3)
    logp = torch.tensor([[-1.0, 7.0, -2.0, -5.0]])
    assert of.means(of.pick(logp)).tolist() == [-1.5, 0.0, -5.0]
    assert of.pick(logp)[of.answer_N].tolist() == [-1.0, -1.0, -5.0]


def test_the_gradient_reaches_scored_tokens_and_no_others():
    logp = torch.zeros(2, 3, requires_grad=True)
    answer = torch.tensor([[-1, 1, 1], [0, -1, 1]])
    sums, _ = answer_sums(logp, answer, 2)
    (sums * torch.tensor([10.0, 1.0])).sum().backward()
    assert logp.grad.tolist() == [[0.0, 1.0, 1.0], [10.0, 0.0, 1.0]]


def test_what_stands_at_a_token_that_is_not_scored_never_counts():
    logp = torch.tensor([[float("nan"), -1.0, float("-inf")]], requires_grad=True)
    sums, _ = answer_sums(logp, torch.tensor([[-1, 0, -1]]), 1)
    sums.sum().backward()
    assert sums.item() == -1.0
    assert logp.grad.tolist() == [[0.0, 1.0, 0.0]]


def test_a_long_answer_loses_nothing_to_rounding():
    """The sum of 200,000 float32 numbers in float32 would be off by tenths of a nat."""
    logp = -torch.rand(1, 200_000, generator=torch.Generator().manual_seed(0))
    (total,), _ = answer_sums(logp, torch.zeros(1, 200_000, dtype=torch.int32), 1)
    assert total.item() == pytest.approx(logp.double().sum().item(), abs=1e-8)


def test_a_pass_without_scored_tokens_has_answers_of_nothing():
    logp = torch.ones(1, 3, requires_grad=True)
    sums, tokens = answer_sums(logp, torch.full((1, 3), -1), 2)
    sums.sum().backward()
    assert sums.tolist() == tokens.tolist() == [0, 0]
    assert logp.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_an_answer_beyond_the_last_and_a_table_of_another_shape_are_refused():
    with pytest.raises(AnswerError, match="answer = 2: number the 2 answers"):
        answer_sums(torch.zeros(1, 3), torch.tensor([[0, 1, 2]]), 2)
    with pytest.raises(AnswerError, match=r"\(1, 4\)"):
        answer_sums(torch.zeros(1, 4), torch.tensor([[0, 1, 1]]), 2)


def test_gradients_of_sums_equal_finite_differences():
    logp = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    answer = torch.tensor([[0, 0, -1, 1], [1, 2, 2, -1]])
    assert torch.autograd.gradcheck(lambda x: answer_sums(x, answer, 3)[0], logp)
