"""Tokens are drawn from the whole softmax, by numbers that depend on nothing but their place."""

from math import log

import pytest
import torch

from core.rollout.draws import Stream, draw
from core.rollout.errors import SamplingError

CHI_SQUARE_999 = {2: 13.8, 4: 18.5, 19: 43.8}  # 1 in 1000 lies above, by degrees of freedom


def chi_square(tokens, probability):
    count = torch.bincount(tokens, minlength=len(probability)).double()
    expected = probability.double() * len(tokens)
    return float(((count - expected).square() / expected).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_those_of_softmax_at_the_temperature(temperature):
    logits = torch.tensor([2.0, 0.0, -1.0, 0.5, 1.0])
    u = torch.cat([Stream(3, 0).uniform(range(500), [s] * 500, 0) for s in range(20)])
    tokens = draw(logits.expand(len(u), -1), u, temperature)
    assert chi_square(tokens, (logits / temperature).softmax(-1)) < CHI_SQUARE_999[4]


def test_numbers_are_uniform_along_every_part_of_their_key():
    rows, many = range(4000), [0] * 4000
    along = [
        Stream(0, 0).uniform(rows, many, 0),
        Stream(0, 0).uniform(many, rows, 0),
        torch.cat([Stream(0, 0).uniform([0], [0], p) for p in range(500)]),
        torch.cat([Stream(0, step).uniform([0], [0], 0) for step in range(500)]),
        torch.cat([Stream(seed, 0).uniform([0], [0], 0) for seed in range(500)]),
    ]
    for u in along:
        assert 0 <= float(u.min()) <= float(u.max()) < 1
        assert chi_square((u * 20).long(), torch.full((20,), 0.05)) < CHI_SQUARE_999[19]
    assert float(torch.corrcoef(torch.stack(along[:2]))[0, 1]) < 0.06


def test_another_seed_step_purpose_row_sample_or_position_gives_another_number():
    numbers = [
        stream.uniform([row], [sample], position).item()
        for stream in (Stream(1, 2), Stream(2, 2), Stream(1, 3), Stream(1, 2, "validation"))
        for row in (5, 6)
        for sample in (0, 1)
        for position in (0, 1)
    ]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-52])
def test_a_token_of_probability_zero_is_never_drawn(u):
    inf = float("inf")
    logits = torch.tensor([[-inf, 0.0, -inf, 0.0, -inf], [-inf, -inf, log(3), -inf, -inf]])
    tokens = draw(logits, torch.tensor([u, u], dtype=torch.float64), 1.0)
    assert tokens[0].item() in {1, 3}
    assert tokens[1] == 2


def test_the_boundary_between_two_tokens_is_their_cumulated_probability():
    logits = torch.tensor([[2.0, 0.0]])  # at temperature 0.5: exp(-0.0181499)
    at = float(torch.tensor(-0.0181499).exp())
    for u, token in ((at - 1e-6, 0), (at + 1e-6, 1)):
        assert draw(logits, torch.tensor([u], dtype=torch.float64), 0.5).item() == token


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_refused(bad):
    with pytest.raises(SamplingError, match="not finite"):
        draw(torch.tensor([[0.0, bad]]), torch.zeros(1), 1.0)
