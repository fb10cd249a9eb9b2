"""Preferences under differentiation: passes add up, and only what matters moves the loss."""

import pytest
import torch

from core.objectives import answer_sums, dpo
from core.spec.objective import DpoSpec

SPECS = [
    DpoSpec(),
    DpoSpec(label_smoothing=0.2, nll_weight=0.7),
    DpoSpec(loss="robust", label_smoothing=0.2),
    DpoSpec(loss="hinge", length_normalised=True, target_margin=0.3),
    DpoSpec(loss="ipo", nll_weight=0.1),
]
every_loss = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.loss)


@pytest.fixture
def pairs():
    """Log-probabilities, the reference's and token counts of seven pairs."""
    generator = torch.Generator().manual_seed(1)
    logp, reference = (-9 * torch.rand(7, 2, generator=generator).double() for _ in range(2))
    return logp.requires_grad_(), reference, torch.randint(1, 9, (7, 2), generator=generator)


@every_loss
def test_the_gradient_equals_finite_differences(spec, pairs):
    logp, reference, tokens = pairs

    def value(x):
        return dpo(x, tokens, spec, normaliser=7, reference_PS=reference).value

    assert torch.autograd.gradcheck(value, logp)


@every_loss
@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_step_in_passes_is_the_step_in_one_pass(spec, size, pairs):
    """Training case 1, for pairs: the last pass is short, and weighs no more than it holds."""
    logp, reference, tokens = pairs
    whole = dpo(logp, tokens, spec, normaliser=7, reference_PS=reference)
    whole.value.backward()
    wanted, logp.grad = logp.grad, None
    total, sums = 0.0, dict.fromkeys(whole.sums, 0.0)
    for at in range(0, 7, size):
        part = slice(at, at + size)
        loss = dpo(logp[part], tokens[part], spec, normaliser=7, reference_PS=reference[part])
        loss.value.backward()
        total += loss.value.item()
        sums = {name: sums[name] + x for name, x in loss.sums.items()}
    assert torch.equal(logp.grad, wanted)
    assert total == pytest.approx(whole.value.item(), abs=1e-12)
    assert sums == pytest.approx(whole.sums, abs=1e-12)


@pytest.mark.parametrize("loss", ["sigmoid", "hinge", "ipo"])
def test_what_both_answers_gain_alike_changes_nothing(loss, pairs):
    logp, reference, tokens = pairs
    shift = torch.arange(7.0)[:, None]
    values = [
        dpo(x, tokens, DpoSpec(loss=loss), normaliser=7, reference_PS=reference).value.item()
        for x in (logp, logp + shift)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_at_the_reference_itself_every_pair_pulls_with_half_of_beta(pairs):
    logp, _, tokens = pairs
    dpo(logp, tokens, DpoSpec(beta=0.4), normaliser=7, reference_PS=logp).value.backward()
    wanted = torch.tensor([-0.2, 0.2]).double().expand(7, 2) / 7
    torch.testing.assert_close(logp.grad, wanted)


def test_a_pair_that_is_hopelessly_wrong_still_has_a_finite_loss_and_gradient():
    logp = torch.tensor([[-1e6, 0.0], [0.0, -1e6]], dtype=torch.float64, requires_grad=True)
    loss = dpo(logp, torch.ones(2, 2), DpoSpec(beta=1.0, reference="none"), normaliser=2)
    loss.value.backward()
    assert loss.value.item() == 5e5
    assert logp.grad.tolist() == [[-0.5, 0.5], [0.0, 0.0]]


@every_loss
def test_a_pass_without_pairs_adds_zero(spec):
    """Training case 2: never NaN; a step without any pair is refused instead."""
    table = torch.zeros(1, 3, requires_grad=True)
    sums, tokens = answer_sums(table, torch.full((1, 3), -1), 0)
    none = sums.view(-1, 2)
    loss = dpo(none, tokens.view(-1, 2), spec, normaliser=7, reference_PS=none.detach())
    loss.value.backward()
    assert loss.value.item() == 0.0
    assert set(loss.sums.values()) == {0.0}
    assert table.grad.tolist() == [[0.0, 0.0, 0.0]]
