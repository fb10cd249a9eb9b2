"""Every loss of sampled answers equals its formula, and a step in passes is the step in one."""

from math import exp

import pytest
import torch

from core.objectives import AnswerError, BaselineError, NormaliserError, grpo, step_normaliser

LOSSES = ["grpo", "dapo", "dr_grpo", "gspo"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.mark.parametrize(
    ("loss", "wanted"), [("grpo", 0.0), ("gspo", 0.0), ("dapo", 0.6), ("dr_grpo", 0.3)]
)
def test_how_much_a_long_answer_weighs_is_what_sets_the_losses_apart(loss, wanted, grpo_spec):
    """Training case 11: answers of 2 and 8 tokens, advantages +1 and -1, ratio 1, at most 10."""
    spec = grpo_spec(loss, max_completion_tokens=10)
    logp = torch.randn(2, 8)
    answer = torch.tensor([[0] * 2 + [-1] * 6, [1] * 8])
    count = step_normaliser(spec, answers=2, tokens=10)
    got = grpo(logp, logp, answer, torch.tensor([1.0, -1.0]), spec, normaliser=count)
    assert got.value.item() == pytest.approx(wanted, abs=1e-12)


@every_loss
@pytest.mark.parametrize("cuts", [[3], [2, 4, 6], [6], [1, 2, 3, 4, 5, 6]])
def test_a_step_in_passes_is_the_step_in_one_pass(loss, cuts, sampled, grpo_spec):
    """Training case 12 (and 1): the denominator is the whole step's, the last pass may be short."""
    spec = grpo_spec(loss, kl_weight=0.1)
    value, sums, grad = sampled.run(spec)
    value_cut, sums_cut, grad_cut = sampled.run(spec, *cuts)
    assert torch.equal(grad_cut, grad)
    assert value_cut == pytest.approx(value, abs=1e-12)
    assert sums_cut == pytest.approx(sums, abs=1e-12)


@every_loss
def test_the_value_is_the_formula_written_as_loops(loss, sampled, grpo_spec):
    spec = grpo_spec(loss, kl_weight=0.3, clip_low=0.1, clip_high=0.4, max_completion_tokens=9)
    total, clipped, kl = 0.0, 0, 0.0
    for row, scored in enumerate(sampled.scored_BT.tolist()):
        logp, old, ref = (
            x[row].tolist()[: sum(scored)]
            for x in (sampled.logp_BT, sampled.old_BT, sampled.reference_BT)
        )
        length, advantage = len(logp), sampled.advantage_A[row].item()
        changes = [a - b for a, b in zip(logp, old, strict=True)]
        if loss == "gspo":
            changes = [sum(changes) / length] * length
        divergences = [exp(b - a) - (b - a) - 1 for a, b in zip(logp, ref, strict=True)]
        for change, divergence in zip(changes, divergences, strict=True):
            free, bound = exp(change) * advantage, min(max(exp(change), 0.9), 1.4) * advantage
            clipped += bound < free
            weight = 1 / length if loss in {"grpo", "gspo"} else 1
            total += weight * (0.3 * divergence - min(free, bound))
        kl += sum(divergences)
    value, sums, _ = sampled.run(spec)
    count = {"grpo": 7, "gspo": 7, "dapo": 28, "dr_grpo": 7 * 9}[loss]
    assert value == pytest.approx(total / count, abs=1e-12)
    assert 0 < clipped < 28
    assert sums == pytest.approx({"loss": total, "clipped": clipped, "tokens": 28, "kl": kl})


def test_a_reference_without_weight_is_measured_and_does_not_pull(sampled, grpo_spec):
    value, sums, grad = sampled.run(grpo_spec())
    leaf = sampled.logp_BT.clone().requires_grad_()
    scored = sampled.scored_BT
    number = torch.arange(7)[:, None].expand_as(scored).where(scored, -1)
    plain = grpo(leaf, sampled.old_BT, number, sampled.advantage_A, grpo_spec(), normaliser=28)
    plain.value.backward()
    assert (plain.value.item(), "kl" in plain.sums) == (value, False)
    assert torch.equal(leaf.grad, grad)
    assert sums["kl"] > 0


def test_entropy_is_summed_over_scored_tokens(grpo_spec):
    logp, answer = torch.zeros(1, 3), torch.tensor([[-1, 0, 0]])
    entropy = torch.tensor([[99.0, 1.5, 2.0]], requires_grad=True)
    got = grpo(
        logp, logp, answer, torch.ones(1), grpo_spec(), normaliser=2, entropy_BT=entropy
    )  # fmt: skip
    assert got.sums == {"loss": -2.0, "clipped": 0.0, "tokens": 2.0, "entropy": 3.5}
    assert not got.value.requires_grad


@every_loss
def test_a_pass_without_scored_tokens_adds_zero(loss, grpo_spec):
    """Training case 2: never NaN; a step without any token is refused instead."""
    logp, nobody = torch.zeros(2, 3, requires_grad=True), torch.full((2, 3), -1)
    spec = grpo_spec(loss, kl_weight=0.1)
    for advantage in (torch.ones(2), torch.ones(0)):
        got = grpo(
            logp, logp, nobody, advantage, spec, normaliser=7, reference_BT=logp.detach()
        )  # fmt: skip
        got.value.backward()
        assert got.sums == {"loss": 0.0, "clipped": 0.0, "tokens": 0.0, "kl": 0.0}
        assert logp.grad.abs().sum().item() == 0.0
    with pytest.raises(NormaliserError, match="normaliser = 0"):
        grpo(logp, logp, nobody, torch.ones(2), grpo_spec(loss), normaliser=0)


def test_tables_and_words_that_do_not_fit_are_refused(grpo_spec):
    logp, answer = torch.zeros(1, 3), torch.tensor([[0, 1, 1]])
    with pytest.raises(BaselineError, match=r"kl_weight 0\.1"):
        grpo(logp, logp, answer, torch.ones(2), grpo_spec(kl_weight=0.1), normaliser=3)
    with pytest.raises(AnswerError, match="number the 1 answers"):
        grpo(logp, logp, answer, torch.ones(1), grpo_spec(), normaliser=3)
    with pytest.raises(AnswerError, match="one number an answer"):
        grpo(logp, logp, answer, torch.ones(1, 2), grpo_spec(), normaliser=3)
    with pytest.raises(AnswerError, match=r"\(1, 2\)"):
        grpo(logp, torch.zeros(1, 2), answer, torch.ones(2), grpo_spec(), normaliser=3)
