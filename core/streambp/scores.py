"""Log-probability and entropy of given tokens, a tile of logits at a time in both directions.

    logp_n = z_n[target_n] - lse_n,         d logp_n / d z_n = onehot - p_n
    H_n = - sum_v p_n[v] log p_n[v],        d H_n / d z_n = - p_n (log p_n + H_n)

with p = softmax(z). Rows x vocabulary never exists. Two passes make every tile twice. Where the
objective is linear in the log-probabilities, its weights are known before the first tile is made:
one pass makes each tile's gradient while the tile is there.

Legend: N scored tokens, M hidden states, C tokens of a tile, D width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.streambp.atwork import at_work
from core.streambp.call import Autocast
from core.streambp.dtypes import summing_dtype
from core.streambp.head import Head
from core.streambp.layout import chunks
from core.streambp.ledger import Ledger
from core.streambp.projection import Projection, projection, straight_params
from core.streambp.tile import Tile


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which tokens are scored: `targets_N`, predicted by the hidden states at `places_N`."""

    head: Head
    places_N: Tensor
    targets_N: Tensor
    tile_tokens: int
    entropy: bool = False

    def tiles(self) -> list[slice]:
        """Cut the scored tokens into tiles."""
        return [slice(*bounds) for bounds in chunks(len(self.places_N), self.tile_tokens)]


class HeadScores(torch.autograd.Function):
    """logp_N and, where asked for, entropy_N; `params` are the norm's, then the output's."""

    @staticmethod
    def forward(
        ctx: Any, scoring: Scoring, hidden_MD: Tensor, *params: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Walk the tiles and keep no logits."""
        ctx.set_materialize_grads(False)
        ctx.scoring, ctx.autocast = scoring, Autocast.current(hidden_MD.device.type)
        with ctx.autocast(), at_work(params):
            walk = Walk(scoring, hidden_MD, params, [False] * (1 + len(params)))
            for tile in scoring.tiles():
                walk.score(tile)
        logp_N, lse_N, entropy_N = walk.scores
        ctx.save_for_backward(hidden_MD, lse_N, entropy_N, *params)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor | None, entropy_grad_N: Tensor | None) -> tuple[Any, ...]:
        """Walk the tiles again."""
        hidden_MD, lse_N, entropy_N, *params = ctx.saved_tensors
        grad_N = torch.zeros_like(lse_N) if grad_N is None else grad_N
        with ctx.autocast(), at_work(params):
            walk = Walk(ctx.scoring, hidden_MD, params, ctx.needs_input_grad[1:])
            for tile in ctx.scoring.tiles():
                walk.rescore(tile, lse_N[tile])
                streams = None
                if entropy_grad_N is not None:
                    streams = (entropy_N[tile], entropy_grad_N[tile])
                walk.send_back(tile, grad_N[tile], streams)
        return None, *walk.grads()


class LinearScores(torch.autograd.Function):
    """A zero to call `backward` on, which sends on the gradient of (weight_N * logp_N).sum().

    That gradient is made here. Weights that nobody watches have it in their `.grad` already.
    """

    @staticmethod
    def forward(
        ctx: Any, ledger: Ledger, scoring: Scoring, weight_N: Tensor, hidden_MD: Tensor,
        *params: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Walk the tiles once."""
        ctx.ledger = ledger
        ctx.entered = ledger.enter(straight_params(scoring.head.output))
        with Autocast.current(hidden_MD.device.type)(), at_work(params):
            walk = Walk(scoring, hidden_MD, params, ctx.needs_input_grad[3:], ledger)
            for tile in scoring.tiles():
                walk.score(tile)
                if any(walk.needs):
                    walk.send_back(tile, weight_N[tile], None)
        ctx.grads = walk.grads()
        logp_N = walk.scores[0]
        ctx.mark_non_differentiable(logp_N)
        return logp_N.new_zeros(()), logp_N

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Any, ...]:
        """Hand over what was made, and keep nothing of it."""
        grads, ctx.grads = ctx.grads, None
        ctx.ledger.sent(ctx.entered)
        return None, None, None, *grads


class Walk:
    """One walk over the tiles: between `score` and `send_back` it holds one tile's softmax."""

    def __init__(
        self, scoring: Scoring, hidden_MD: Tensor, params: Sequence[Tensor],
        needs: Sequence[bool], ledger: Ledger | None = None,
    ) -> None:  # fmt: skip
        self.scoring, self.hidden, self.needs = scoring, hidden_MD, needs
        norm, head = scoring.head.norm, scoring.head
        own = 0 if norm is None else len(list(norm.module.parameters()))
        below = list(needs[: 1 + own])
        self.norm = None if norm is None else Tile(norm.forward, list(params[:own]), below)
        self.output: Projection = projection(
            head.output, list(params[own:]), [any(below), *needs[1 + own :]], ledger
        )
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
        if self.norm is not None and share_CD is not None:
            share_CD = self.norm.send_back(share_CD)
        if self.hidden_grad is not None:
            assert share_CD is not None, "logits depend on hidden states"
            places = (self.scoring.places_N[tile],)  # one may predict several tokens: add
            self.hidden_grad.index_put_(places, share_CD.to(self.hidden.dtype), accumulate=True)

    def grads(self) -> list[Tensor | None]:
        """Give the gradient of the hidden states and of every parameter, the norm's first."""
        norm = [] if self.norm is None else self.norm.totals()
        return [self.hidden_grad, *norm, *self.output.totals()]

    def _logits(self, tile: slice) -> Tensor:
        head = self.scoring.head
        hidden_CD = self.hidden[self.scoring.places_N[tile]]
        if self.norm is not None:
            hidden_CD = self.norm.out(hidden_CD)
        z_CV = head.shaped_(self.output.out(hidden_CD))
        self._slope = head.slope(z_CV) if any(self.needs) else None
        return z_CV
