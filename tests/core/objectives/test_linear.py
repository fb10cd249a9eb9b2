"""The weights of a linear objective are its gradient, wherever that is taken."""

import torch

from core.objectives import linear_weight, sft


def test_the_weight_of_cross_entropy_is_its_gradient_at_any_point():
    weight_BT = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])

    def objective(logp_BT):
        return sft(logp_BT, weight_BT, normaliser=7.0)

    with torch.no_grad():
        got = linear_weight(objective, weight_BT)
    assert torch.equal(got, -weight_BT / 7)
    logp = torch.randn(2, 3, requires_grad=True)
    objective(logp).value.backward()
    torch.testing.assert_close(got, logp.grad)
