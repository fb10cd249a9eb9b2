"""Cross-entropy over the tokens of a whole step: passes add up, whatever they hold."""

import pytest
import torch

from core.objectives import sft


def logps(*losses):
    return torch.tensor([[-loss for loss in losses]], dtype=torch.float64, requires_grad=True)


def test_two_passes_weigh_their_tokens_and_not_themselves():
    """transformers#34191: one token of loss 4 and three of loss 1 make 7/4, not 5/2."""
    one, three = logps(4.0), logps(1.0, 1.0, 1.0)
    parts = [sft(logp, torch.ones_like(logp), normaliser=4) for logp in (one, three)]
    assert sum(part.value.item() for part in parts) == 1.75
    assert [part.sums["token_loss"] for part in parts] == [4.0, 3.0]


def test_the_gradient_of_passes_is_that_of_one_pass():
    whole = logps(4.0, 1.0, 1.0, 1.0)
    weight = torch.tensor([[1.0, 1.0, 0.0, 1.0]])
    sft(whole, weight, normaliser=3).value.backward()
    cut = logps(4.0, 1.0, 1.0, 1.0)
    for part in (slice(0, 1), slice(1, 4)):
        sft(cut[:, part], weight[:, part], normaliser=3).value.backward()
    assert torch.equal(cut.grad, whole.grad)
    assert whole.grad.tolist() == [[-1 / 3, -1 / 3, 0.0, -1 / 3]]


@pytest.mark.parametrize("padding", [0.0, -1e30])
def test_a_token_without_weight_counts_for_nothing(padding):
    logp = torch.tensor([[-2.0, padding], [-1.0, -3.0]])
    weight = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    loss = sft(logp, weight, normaliser=3)
    assert loss.value.item() == 2.0
    assert loss.sums == {"token_loss": 6.0}


def test_a_token_of_half_the_weight_counts_half():
    logp = logps(3.0, 1.0)
    loss = sft(logp, torch.tensor([[0.5, 1.0]]), normaliser=1.5).value
    loss.backward()
    assert loss.item() == pytest.approx(2.5 / 1.5)
    assert logp.grad[0].tolist() == pytest.approx([-1 / 3, -2 / 3])
