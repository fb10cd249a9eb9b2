"""What lies between a model's last layer and its logits: a norm, a linear map, a scale and a cap.

    z = cap * tanh(scale * output(norm(h)) / cap) / temperature

Scale and cap are read from the configuration and compared with the family's own forward on a few
rows: a head that does more is refused.

Legend: C tokens of a tile, D width, V vocabulary.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.streambp.errors import TemperatureError, UnknownHeadError
from core.streambp.late import LateForward, is_hooked


@dataclass(frozen=True, slots=True)
class Head:
    """The output module and what becomes of its answer; `cap` is None where there is none.

    `norm` is the decoder's last module where it can be left to the head (see `late`).
    """

    output: nn.Module
    scale: float
    cap: float | None
    temperature: float = 1.0
    norm: LateForward | None = None

    @property
    def awake(self) -> "Head":
        """The head of this moment: a norm that is watched meanwhile stays with the decoder."""
        if self.norm is not None and is_hooked(self.norm.module):
            return replace(self, norm=None)
        return self

    def parameters(self) -> list[Tensor]:
        """Give the parameters of the norm, then those of the output."""
        norm = [] if self.norm is None else list(self.norm.module.parameters())
        return [*norm, *self.output.parameters()]

    def at(self, temperature: float) -> "Head":
        """Divide the logits by `temperature`: the distribution that a sampler drew from."""
        if not 0 < temperature < float("inf"):
            raise TemperatureError("temperature", temperature, "give a finite number above 0")
        return replace(self, temperature=float(temperature))

    def shaped_(self, out_CV: Tensor) -> Tensor:
        """Turn the output's answer into z_CV, in place."""
        if self.cap is not None:
            out_CV.mul_(self.scale / self.cap).tanh_().mul_(self.cap / self.temperature)
        elif self.scale != self.temperature:
            out_CV.mul_(self.scale / self.temperature)
        return out_CV

    def slope(self, z_CV: Tensor) -> Tensor | None:
        """Give dz / d output where it differs from one logit to the next: under a cap."""
        if self.cap is None:
            return None
        return (z_CV * (self.temperature / self.cap)).square_().neg_().add_(1)

    def output_grad_(self, dz_CV: Tensor, slope_CV: Tensor | None) -> Tensor:
        """Turn the gradient of z_CV into the gradient of the output's answer, in place."""
        if slope_CV is not None:
            dz_CV.mul_(slope_CV)
        if self.scale != self.temperature:
            dz_CV.mul_(self.scale / self.temperature)
        return dz_CV


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
    got = head.shaped_(head.output(hidden))
    tolerance = 1e-5 if want.dtype.itemsize >= _SINGLE else 2e-2
    near = want.shape == got.shape and torch.allclose(
        want.double(), got.double(), rtol=tolerance, atol=tolerance
    )
    if not near:
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
