"""Every loss of a pair equals its paper's formula, worked out by hand."""

from math import exp, log

import pytest
import torch

from core.objectives import AnswerError, BaselineError, NormaliserError, dpo
from core.spec.objective import DpoSpec

LOGP = [[-4.0, -6.0], [-3.0, -2.0]]
REFERENCE = [[-5.0, -5.0], [-3.0, -4.0]]
TOKENS = torch.tensor([[2, 3], [1, 4]])
MARGINS = [2.0, -2.0]  # of log-probabilities, less the reference's


def double(rows):
    return torch.tensor(rows, dtype=torch.float64)


def value(logp=LOGP, base=REFERENCE, **words):
    spec = DpoSpec(**words)
    reference = None if spec.reference == "none" else double(base)
    return dpo(double(logp), TOKENS, spec, normaliser=2, reference_PS=reference).value.item()


def minus_log_sigmoid(x):
    return log(1 + exp(-x))


def mean(formula):
    return pytest.approx(sum(formula(x) for x in MARGINS) / 2, abs=1e-12)


def test_sigmoid_is_the_log_odds_of_the_right_order():
    assert value(beta=0.3) == mean(lambda x: minus_log_sigmoid(0.3 * x))


def test_label_smoothing_mixes_in_the_wrong_order():
    assert value(beta=0.3, label_smoothing=0.1) == mean(
        lambda x: 0.9 * minus_log_sigmoid(0.3 * x) + 0.1 * minus_log_sigmoid(-0.3 * x)
    )


def test_robust_takes_the_wrong_order_out_again():
    assert value(loss="robust", beta=0.3, label_smoothing=0.1) == mean(
        lambda x: (0.9 * minus_log_sigmoid(0.3 * x) - 0.1 * minus_log_sigmoid(-0.3 * x)) / 0.8
    )


def test_robust_is_sigmoid_on_average_over_labels_that_are_flipped_so_often():
    flipped = [[row[1], row[0]] for row in LOGP]
    reference = [[row[1], row[0]] for row in REFERENCE]
    words = {"loss": "robust", "label_smoothing": 0.2}
    noisy = 0.8 * value(**words) + 0.2 * value(flipped, reference, **words)
    assert noisy == pytest.approx(value(), abs=1e-12)


def test_hinge_asks_for_a_lead_of_one():
    assert value(loss="hinge", beta=0.3) == mean(lambda x: max(0.0, 1 - 0.3 * x))
    assert value(loss="hinge", beta=5.0) == (0.0 + 11.0) / 2


def test_ipo_pulls_the_difference_to_its_target():
    assert value(loss="ipo", beta=0.25) == mean(lambda x: (x - 2.0) ** 2)


def test_without_a_reference_and_by_length_it_is_simpo():
    margins = [-4 / 2 - -6 / 3, -3.0 - -2 / 4]
    wanted = [minus_log_sigmoid(2.0 * x - 0.5) for x in margins]
    words = {"length_normalised": True, "target_margin": 0.5, "beta": 2.0}
    assert value(reference="none", **words) == pytest.approx(sum(wanted) / 2, abs=1e-12)


def test_by_length_the_reference_is_divided_too():
    margins = [(-4 + 5) / 2 - (-6 + 5) / 3, 0.0 - (-2 + 4) / 4]
    wanted = [minus_log_sigmoid(0.1 * x) for x in margins]
    assert value(length_normalised=True) == pytest.approx(sum(wanted) / 2, abs=1e-12)


def test_the_chosen_answers_mean_token_loss_is_added_by_its_weight():
    assert value(nll_weight=0.5) - value() == pytest.approx(0.5 * (4 / 2 + 3 / 1) / 2)


def test_a_chosen_answer_without_tokens_has_no_token_loss():
    spec = DpoSpec(reference="none", nll_weight=1.0, length_normalised=True)
    logp = torch.zeros(1, 2, requires_grad=True)
    loss = dpo(logp, torch.zeros(1, 2, dtype=torch.int64), spec, normaliser=1)
    loss.value.backward()
    assert loss.value.item() == pytest.approx(log(2))
    assert logp.grad.isfinite().all()


def test_sums_add_up_over_pairs_and_a_tie_counts_half():
    logp, reference = double([*LOGP, [-1.0, -1.0]]), double([*REFERENCE, [-1.0, -1.0]])
    tokens = torch.ones(3, 2, dtype=torch.int64)
    loss = dpo(logp, tokens, DpoSpec(beta=0.5), normaliser=6, reference_PS=reference)
    assert loss.sums == pytest.approx(
        {
            "loss": 6 * loss.value.item(), "rewards_chosen": 0.5, "rewards_rejected": 0.5,
            "margin": 0.0, "accuracy": 1.5, "logp_chosen": -8.0, "logp_rejected": -9.0, "pairs": 3,
        }
    )  # fmt: skip


def test_a_reference_is_given_exactly_where_the_spec_compares_with_one():
    with pytest.raises(BaselineError, match="reference = 'none': the spec compares with: base"):
        dpo(double(LOGP), TOKENS, DpoSpec(), normaliser=2)
    with pytest.raises(BaselineError, match="none"):
        dpo(
            double(LOGP), TOKENS, DpoSpec(reference="none"), normaliser=2,
            reference_PS=double(REFERENCE),
        )  # fmt: skip


@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 2)])
def test_sides_that_make_no_pairs_are_refused(shape):
    with pytest.raises(AnswerError, match="chosen and rejected"):
        dpo(torch.zeros(shape), TOKENS, DpoSpec(reference="none"), normaliser=2)


@pytest.mark.parametrize("count", [0, -1, float("nan"), float("inf")])
def test_a_step_without_pairs_is_refused(count):
    with pytest.raises(NormaliserError, match="above 0"):
        dpo(double(LOGP), TOKENS, DpoSpec(reference="none"), normaliser=count)
