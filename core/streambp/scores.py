"""Log-probability and entropy of given tokens, a tile of logits at a time in both directions.

    logp_n = z_n[target_n] - lse_n,         d logp_n / d z_n = onehot - p_n
    H_n = - sum_v p_n[v] log p_n[v],        d H_n / d z_n = - p_n (log p_n + H_n)

with p = softmax(z). Rows x vocabulary never exists. Two passes make every tile twice. Where the
objective is linear in the log-probabilities and its weights are known beforehand, the forward pass
makes the gradient too, and the second making of the tiles is saved.

Legend: N scored tokens, M hidden states, C tokens of a tile, D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.streambp.call import Autocast
from core.streambp.errors import LinearityError
from core.streambp.head import Head
from core.streambp.keys import summing_dtype
from core.streambp.layout import chunks
from core.streambp.projection import Projection, projection


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which tokens are scored: `targets_N`, predicted by the hidden states at `places_N`.

    With `weight_N` the forward pass makes the gradient of (weight_N * logp_N).sum().
    """

    head: Head
    places_N: Tensor
    targets_N: Tensor
    tile_tokens: int
    entropy: bool
    weight_N: Tensor | None

    def tiles(self) -> list[slice]:
        """Cut the scored tokens into tiles."""
        return [slice(*bounds) for bounds in chunks(len(self.places_N), self.tile_tokens)]


class HeadScores(torch.autograd.Function):
    """logp_N and, where asked for, entropy_N; `params` are the output module's own."""

    @staticmethod
    def forward(
        ctx: Any, scoring: Scoring, hidden_MD: Tensor, *params: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Walk the tiles and keep no logits."""
        ctx.set_materialize_grads(False)
        ctx.scoring, ctx.autocast = scoring, Autocast.current(hidden_MD.device.type)
        one_pass = scoring.weight_N is not None
        needs = list(ctx.needs_input_grad[1:]) if one_pass else [False] * (1 + len(params))
        with ctx.autocast():
            walk = Walk(scoring, hidden_MD, list(params), needs)
            for tile in scoring.tiles():
                walk.score(tile)
                if scoring.weight_N is not None and any(needs):
                    walk.send_back(tile, scoring.weight_N[tile], None)
        logp_N, lse_N, entropy_N = walk.scores
        if one_pass:
            ctx.grads = walk.grads()
            if entropy_N is not None:
                ctx.mark_non_differentiable(entropy_N)
        else:
            ctx.save_for_backward(hidden_MD, lse_N, entropy_N, *params)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor | None, entropy_grad_N: Tensor | None) -> tuple[Any, ...]:
        """Walk the tiles again, or hand over what the forward pass made."""
        if ctx.scoring.weight_N is not None:
            return None, *_made_ahead(ctx, grad_N)
        hidden_MD, lse_N, entropy_N, *params = ctx.saved_tensors
        grad_N = torch.zeros_like(lse_N) if grad_N is None else grad_N
        with ctx.autocast():
            walk = Walk(ctx.scoring, hidden_MD, params, list(ctx.needs_input_grad[1:]))
            for tile in ctx.scoring.tiles():
                walk.rescore(tile, lse_N[tile])
                streams = None
                if entropy_grad_N is not None:
                    streams = (entropy_N[tile], entropy_grad_N[tile])
                walk.send_back(tile, grad_N[tile], streams)
        return None, *walk.grads()


class Walk:
    """One walk over the tiles: between `score` and `send_back` it holds one tile's softmax."""

    def __init__(
        self, scoring: Scoring, hidden_MD: Tensor, params: list[Tensor], needs: list[bool]
    ) -> None:
        self.scoring, self.hidden, self.needs = scoring, hidden_MD, needs
        self.output: Projection = projection(scoring.head.output, params, needs)
        self.hidden_grad = torch.zeros_like(hidden_MD) if needs[0] else None
        logp_N = hidden_MD.new_empty(len(scoring.places_N), dtype=summing_dtype(hidden_MD.dtype))
        entropy_N = torch.empty_like(logp_N) if scoring.entropy else None
        self.scores = logp_N, torch.empty_like(logp_N), entropy_N
        self._softmax: Tensor | None = None
        self._slope: Tensor | None = None

    def score(self, tile: slice) -> None:
        """Write a tile's log-probabilities, log-sum-exps and entropies to `scores`."""
        logp_N, lse_N, entropy_N = self.scores
        z_CV = self._logits(tile)
        picked_C = z_CV.gather(1, self.scoring.targets_N[tile, None])[:, 0]
        top_C1 = z_CV.amax(-1, keepdim=True)
        total_C1 = z_CV.sub_(top_C1).exp_().sum(-1, keepdim=True)
        lse_N[tile] = (total_C1.log() + top_C1)[:, 0]
        logp_N[tile] = picked_C - lse_N[tile]
        if entropy_N is not None or any(self.needs):
            self._softmax = z_CV.div_(total_C1)
        if entropy_N is not None:
            entropy_N[tile] = torch.special.entr(z_CV).sum(-1)

    def rescore(self, tile: slice, lse_C: Tensor) -> None:
        """Make the tile's softmax again, from its known log-sum-exp."""
        self._softmax = self._logits(tile).sub_(lse_C[:, None]).exp_()

    def send_back(self, tile: slice, grad_C: Tensor, entropy: tuple[Tensor, Tensor] | None) -> None:
        """Send grad_C, and the gradient of `entropy` (its value, its gradient), to all inputs."""
        assert self._softmax is not None, "no tile was scored"
        p_CV, factor_C = self._softmax, -grad_C
        bent_CV = None
        if entropy is not None:
            value_C, entropy_grad_C = entropy
            bent_CV = torch.special.entr(p_CV).mul_(entropy_grad_C[:, None])
            factor_C = factor_C - value_C * entropy_grad_C
        dz_CV = p_CV.mul_(factor_C[:, None])
        if bent_CV is not None:
            dz_CV += bent_CV
        dz_CV.scatter_add_(1, self.scoring.targets_N[tile, None], grad_C[:, None].to(dz_CV.dtype))
        share_CD = self.output.send_back(self.scoring.head.output_grad_(dz_CV, self._slope))
        self._softmax = self._slope = None
        if self.hidden_grad is not None:
            assert share_CD is not None, "logits depend on hidden states"
            places = (self.scoring.places_N[tile],)  # one may predict several tokens: add
            self.hidden_grad.index_put_(places, share_CD.to(self.hidden.dtype), accumulate=True)

    def grads(self) -> list[Tensor | None]:
        """Give the gradient of the hidden states and of every parameter."""
        return [self.hidden_grad, *self.output.totals()]

    def _logits(self, tile: slice) -> Tensor:
        head = self.scoring.head
        z_CV = head.shaped_(self.output.out(self.hidden[self.scoring.places_N[tile]]))
        self._slope = head.slope(z_CV) if any(self.needs) else None
        return z_CV


# Rounding of the objective's own arithmetic; a wrong promise is off by orders of magnitude more.
_ROUNDING = 1e-4


def _made_ahead(ctx: Any, grad_N: Tensor | None) -> list[Tensor | None]:
    """Scale the gradient that was made for weight_N to grad_N, a multiple of it."""
    if ctx.grads is None:
        raise LinearityError("backward", "a second one", "the first used up what was made ahead")
    if grad_N is None:
        return [None] * len(ctx.grads)
    factor = _multiple(grad_N, ctx.scoring.weight_N)
    grads, ctx.grads = ctx.grads, None
    return [None if grad is None else grad.mul_(factor) for grad in grads]


def _multiple(grad_N: Tensor, weight_N: Tensor) -> float:
    """Find c with grad_N = c * weight_N; LinearityError where there is none."""
    grad_N, weight_N = grad_N.double(), weight_N.double()
    square = float(weight_N.square().sum())
    factor = float((grad_N * weight_N).sum()) / square if square else 0.0
    if float((grad_N - factor * weight_N).norm()) > _ROUNDING * float(grad_N.norm()):
        raise LinearityError(
            "linear_weight_BT", tuple(weight_N.shape), "the objective weighs tokens otherwise"
        )
    return factor
