"""Ratios to the sampling policy and divergence from the base model, at and far from 1."""

import pytest
import torch

from core.objectives import grpo

LOSSES = ["grpo", "dapo", "dr_grpo", "gspo"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def one_token(spec, logp, old, advantage, reference=None):
    """Loss and its slope for a step of one answer of one token."""
    leaf = torch.tensor([[logp]], requires_grad=True)
    reference = None if reference is None else torch.tensor([[reference]])
    loss = grpo(
        leaf, torch.tensor([[old]]), torch.zeros(1, 1, dtype=torch.int64),
        torch.tensor([advantage]), spec, normaliser=1, reference_BT=reference,
    )  # fmt: skip
    loss.value.backward()
    return loss, leaf.grad.item()


@every_loss
@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_on_policy_the_ratio_is_exactly_one_and_the_gradient_flows(loss, clip, grpo_spec):
    """Training case 13, second half."""
    logp = torch.randn(1, 5, requires_grad=True)
    answer = torch.tensor([[-1, 0, 0, 1, 1]])
    spec = grpo_spec(loss, clip_low=clip, clip_high=clip)
    got = grpo(logp, logp.detach(), answer, torch.tensor([0.5, -2.0]), spec, normaliser=1)
    got.value.backward()
    weight = 0.5 if loss in {"grpo", "gspo"} else 1.0
    assert logp.grad[0].tolist() == [0.0, *[-0.5 * weight] * 2, *[2.0 * weight] * 2]
    assert got.value.item() == 2 * weight * 1.5
    assert got.sums["clipped"] == 0.0


@every_loss
def test_the_gradient_equals_finite_differences(loss, sampled, grpo_spec):
    spec = grpo_spec(loss, kl_weight=0.2)
    leaf = sampled.logp_BT.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: sampled.loss(spec, x, slice(0, 7)).value, leaf)


@every_loss
def test_without_advantage_there_is_no_gradient_however_far_the_policy_went(loss, grpo_spec):
    logp = torch.tensor([[-1e30, -1.0, 0.0]], requires_grad=True)
    old = torch.tensor([[0.0, -1.0, -1e30]])
    answer = torch.tensor([[0, 0, 1]])
    got = grpo(logp, old, answer, torch.zeros(2), grpo_spec(loss), normaliser=1)
    got.value.backward()
    assert got.value.item() == 0.0
    assert logp.grad.tolist() == [[0.0, 0.0, 0.0]]
    assert got.sums["clipped"] == 0.0


@pytest.mark.parametrize(
    ("ratio", "advantage", "clipped"),
    [(1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True), (1.2, 1.0, False)],
)
def test_a_ratio_is_clipped_only_where_the_advantage_has_pushed_it(
    ratio, advantage, clipped, grpo_spec
):
    loss, slope = one_token(grpo_spec(), float(torch.tensor(ratio).log()), 0.0, advantage)
    bound = min(max(ratio, 0.8), 1.28)
    assert loss.sums["clipped"] == clipped
    assert loss.value.item() == pytest.approx(-advantage * (bound if clipped else ratio))
    assert slope == pytest.approx(0.0 if clipped else -advantage * ratio)


def test_only_the_policy_itself_learns(grpo_spec):
    """The same table thrice: were old or reference to learn too, nothing would be left to learn."""
    logp = torch.zeros(1, 2, requires_grad=True)
    spec = grpo_spec(kl_weight=1.0)
    answer, shifted = torch.zeros(1, 2, dtype=torch.int64), logp + 1.0
    got = grpo(logp, logp, answer, torch.ones(1), spec, normaliser=1, reference_BT=shifted)
    got.value.backward()
    slope = -1.0 + (1.0 - torch.tensor(1.0).exp().item())
    assert logp.grad[0].tolist() == pytest.approx([slope, slope])


def test_gspo_clips_a_whole_answer_by_its_mean_and_not_a_token(grpo_spec):
    old = torch.zeros(1, 4)
    logp = torch.tensor([[1.0, -1.0, 1.0, 0.2]], requires_grad=True)
    answer, advantage = torch.tensor([[0, 0, 1, 1]]), torch.ones(2)
    got = grpo(logp, old, answer, advantage, grpo_spec("gspo"), normaliser=2)
    got.value.backward()
    assert got.sums["clipped"] == 2.0
    assert got.value.item() == pytest.approx(-(1.0 + 1.28) / 2)
    assert logp.grad.tolist() == [[-0.25, -0.25, 0.0, 0.0]]


@pytest.mark.parametrize("gap", [-3.0, -0.01, 0.0, 0.5, 4.0])
def test_the_divergence_is_k3(gap, grpo_spec):
    loss, slope = one_token(grpo_spec(kl_weight=2.0), -1.0, -1.0, 0.0, -1.0 + gap)
    exact = torch.tensor(-1.0 + gap).double() + 1.0  # the gap as float32 has it
    assert loss.sums["kl"] == pytest.approx((exact.exp() - exact - 1).item(), abs=1e-12)
    assert loss.sums["kl"] >= 0
    assert slope == pytest.approx(2.0 * (1 - exact.exp().item()), rel=1e-6)


@pytest.mark.parametrize("gap", [-1e30, -1e4, 19.0, 21.0, 1e4, 1e20])
def test_the_divergence_is_finite_and_pulls_back_however_far_the_policy_went(gap, grpo_spec):
    """huggingface/trl#3015: exp of a large gap made the loss of a step infinite."""
    loss, slope = one_token(grpo_spec(kl_weight=1.0), 0.0, 0.0, 0.0, gap)
    assert 0 < loss.value.item() < float("inf")
    assert 0 < abs(slope) < 1e9
    assert (slope > 0) == (gap < 0)


@every_loss
def test_a_ratio_beyond_all_bounds_stays_finite(loss, grpo_spec):
    got, slope = one_token(grpo_spec(loss, max_completion_tokens=1), 0.0, -1e6, -1.0)
    assert 0 < got.value.item() < float("inf")
    assert 0 < slope < 1e9
