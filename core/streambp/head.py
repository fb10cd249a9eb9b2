"""From hidden states to log-probabilities of given tokens, a few rows of logits at a time.

    logp_n = z_n[target_n] - log sum_v exp(z_n[v]),     d logp_n / d z_n = onehot - softmax

Both directions walk the scored tokens in chunks, so that rows x vocabulary never exists. What lies
between the output embedding and z (scaling, soft-capping) is read from the configuration and
compared with the family's own forward on a few rows: a head that does more is refused.

Legend: N scored tokens, C tokens of a chunk, D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.streambp.call import Autocast
from core.streambp.errors import UnknownHeadError
from core.streambp.inner import GradientSums, shares_of
from core.streambp.keys import summing_dtype
from core.streambp.layout import chunks


@dataclass(frozen=True, slots=True)
class Head:
    """z = cap * tanh(scale * output(h) / cap), or scale * output(h) where `cap` is None."""

    output: nn.Module
    scale: float
    cap: float | None

    def logits(self, hidden_CD: Tensor) -> Tensor:
        """Make z_CV, in the dtype of the model."""
        logits_CV = self.output(hidden_CD)
        if self.scale != 1.0:
            logits_CV = logits_CV * self.scale
        if self.cap is not None:
            logits_CV = torch.tanh(logits_CV / self.cap) * self.cap
        return logits_CV


def known_head(model: PreTrainedModel, decoder: nn.Module, ids_BT: Tensor) -> Head:
    """Find the head that the configuration speaks of; UnknownHeadError where the model's differs.

    Runs the model once on `ids_BT`, with its decoder's answer replaced by large random hidden
    states, so that a soft cap shows.
    """
    config = model.config.get_text_config()
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    scale /= float(getattr(config, "logits_scaling", None) or 1.0)
    caps = (getattr(config, name, None) for name in _CAP_NAMES)
    cap = next((float(cap) for cap in caps if cap is not None), None)
    head = Head(model.get_output_embeddings(), scale, cap)
    hidden, want = _family_logits(model, decoder, ids_BT)
    got = head.logits(hidden)
    tolerance = 1e-5 if want.dtype.itemsize >= _SINGLE else 2e-2
    if want.shape != got.shape or not torch.allclose(want, got, rtol=tolerance, atol=tolerance):
        raise UnknownHeadError(
            "head", type(model).__name__, "it does more than scale and soft-cap its logits"
        )
    return head


_CAP_NAMES = ("final_logit_softcapping", "logits_soft_cap")
_SINGLE = torch.float32.itemsize


def _family_logits(
    model: PreTrainedModel, decoder: nn.Module, ids_BT: Tensor
) -> tuple[Tensor, Tensor]:
    """Make hidden states, and take what the family's own forward makes of them."""
    generator = torch.Generator().manual_seed(0)
    shown: list[Tensor] = []

    def replace(_module: nn.Module, _args: Any, output: Any) -> Any:
        known = output.last_hidden_state
        drawn = torch.randn(known.shape, generator=generator, dtype=torch.float64) * 20
        output.last_hidden_state = drawn.to(known.device, known.dtype)
        shown.append(output.last_hidden_state)
        return output

    handle = decoder.register_forward_hook(replace)
    try:
        logits = model(input_ids=ids_BT, use_cache=False).logits
    finally:
        handle.remove()
    return shown[-1], logits


class HeadLogps(torch.autograd.Function):
    """logp_N of `targets_N` at rows `places_N` of hidden_MD; parameters are the output's own."""

    @staticmethod
    def forward(
        ctx: Any,
        head: Head,
        chunk_tokens: int,
        places_N: Tensor,
        targets_N: Tensor,
        hidden_MD: Tensor,
        *params: Tensor,
    ) -> Tensor:
        """Walk the scored tokens and keep no logits."""
        ctx.head, ctx.bounds = head, chunks(len(places_N), chunk_tokens)
        ctx.autocast = Autocast.current(hidden_MD.device.type)
        ctx.save_for_backward(places_N, targets_N, hidden_MD, *params)
        logp_N = hidden_MD.new_empty(len(places_N), dtype=summing_dtype(hidden_MD.dtype))
        with ctx.autocast():
            for start, stop in ctx.bounds:
                z_CV = head.logits(hidden_MD[places_N[start:stop]]).to(logp_N.dtype)
                picked_C = z_CV.gather(1, targets_N[start:stop, None])[:, 0]
                logp_N[start:stop] = picked_C - z_CV.logsumexp(-1)
        return logp_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Any, ...]:
        """Walk them again with a graph over one chunk's logits."""
        places_N, targets_N, hidden_MD, *params = ctx.saved_tensors
        deeper, *needed = ctx.needs_input_grad[4:]
        wanted = [p for p, need in zip(params, needed, strict=True) if need]
        hidden_grad = torch.zeros_like(hidden_MD) if deeper else None
        sums = GradientSums(wanted)
        for start, stop in ctx.bounds:
            place_C = places_N[start:stop]
            with torch.enable_grad(), ctx.autocast():
                hidden_CD = hidden_MD[place_C].detach().requires_grad_(deeper)
                z_CV = ctx.head.logits(hidden_CD)
            dz_CV = _logit_grad(z_CV.detach(), targets_N[start:stop], grad_N[start:stop])
            inputs = [*([hidden_CD] if deeper else []), *wanted]
            shares = shares_of([z_CV], inputs, [dz_CV])
            if hidden_grad is not None:
                share = shares.pop(0)
                assert share is not None, "logits depend on hidden states"
                hidden_grad[place_C] = share
            sums.add(shares)
        grads = iter(sums.totals())
        return None, None, None, None, hidden_grad, *(next(grads) if n else None for n in needed)


def _logit_grad(z_CV: Tensor, target_C: Tensor, grad_C: Tensor) -> Tensor:
    """grad_C * (onehot - softmax), in the dtype of the logits; one buffer is reused throughout."""
    dz_CV = torch.softmax(z_CV, -1, dtype=grad_C.dtype).neg_()
    dz_CV.scatter_add_(1, target_C[:, None], torch.ones_like(grad_C)[:, None])
    return dz_CV.mul_(grad_C[:, None]).to(z_CV.dtype)
