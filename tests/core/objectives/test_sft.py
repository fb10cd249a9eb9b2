"""Cross-entropy over the tokens of a whole step: passes add up, whatever they hold."""

import pytest
import torch

from core.objectives import NormaliserError, pretrain, sft


def logps(*losses):
    return torch.tensor([[-loss for loss in losses]], dtype=torch.float64, requires_grad=True)


def test_two_passes_weigh_their_tokens_and_not_themselves():
    """Training case 1, transformers#34191: one token of loss 4 and three of 1 make 7/4, not 5/2."""
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


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_step_of_seven_rows_in_passes_is_the_step_in_one(size):
    """Training case 1: equal gradients, also where the last pass is short."""
    generator = torch.Generator().manual_seed(0)
    logp = torch.randn(7, 5, generator=generator).double().requires_grad_()
    weight = torch.rand(7, 5, generator=generator).round().double()
    count = float(weight.sum())
    sft(logp, weight, normaliser=count).value.backward()
    whole, logp.grad = logp.grad, None
    for at in range(0, 7, size):
        sft(logp[at : at + size], weight[at : at + size], normaliser=count).value.backward()
    assert torch.equal(logp.grad, whole)


def test_a_pass_without_a_trained_token_adds_zero_and_a_step_without_is_refused():
    """Training case 2: the caller makes no step of it; 0 / 0 is never a loss."""
    logp, none = logps(4.0, 1.0), torch.zeros(1, 2)
    loss = sft(logp, none, normaliser=3)
    loss.value.backward()
    assert (loss.value.item(), loss.sums["token_loss"]) == (0.0, 0.0)
    assert logp.grad.tolist() == [[0.0, 0.0]]
    with pytest.raises(NormaliserError, match="normaliser = 0: give a count above 0"):
        sft(logp, none, normaliser=0)


def test_pretraining_is_the_mean_over_every_predicted_token():
    assert pretrain(logps(4.0, 1.0, 1.0), torch.ones(1, 3), normaliser=3).value.item() == 2.0
    assert pretrain is sft
