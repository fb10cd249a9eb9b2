"""Cross-entropy over the trained tokens of the whole optimizer step: the objective of sft and pretrain.

    L = -(1/N) Σ_b Σ_t w_bt log p(x_b,t+1 | x_b,≤t)        N = Σ w over *all* passes of the step

Legend: B batch, T tokens.
"""

from torch import Tensor

from core.objectives.loss import Loss, share


def sft(logp_BT: Tensor, weight_BT: Tensor, *, normaliser: float) -> Loss:
    """One pass's share of the loss; zero, with a zero gradient, where no token is trained.

    ``logp_BT``: log-probabilities of the next tokens, in nats. ``weight_BT``: 1 where a token is trained,
    else 0. ``normaliser``: the sum of the weights over the whole step, above 0, so that passes add up.

    Sums: ``token_loss``, by ``normaliser`` the step's loss. Raises NormaliserError.
    """
    total = -(logp_BT * weight_BT).sum()
    return share(total, normaliser=normaliser, token_loss=total)
