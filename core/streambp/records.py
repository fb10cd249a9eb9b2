"""What an untouched layer received and gave back, and how far another answer may lie from that."""

from typing import Any

import torch
from torch import Tensor

# Error allowed as a share of what the layer adds to its input. Float64 models cast to float32.
SHARE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class RecordedForward:
    """Keeps what the untouched layer received and gave back, for the probe to compare with."""

    def __init__(self, forward: Any) -> None:
        self.forward = forward
        self.hidden: Tensor | None = None
        self.out: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer and keep what went in and out."""
        self.hidden = args[0] if args else kwargs.get("hidden_states")
        self.out = self.forward(*args, **kwargs)
        return self.out


def first(out: Any) -> Tensor:
    """Give the hidden states out of what a layer returns."""
    return out if isinstance(out, Tensor) else out[0]


def departure(out: Tensor, want: Tensor, hidden: Tensor) -> float | None:
    """Give how far `out` is from `want`, as a share of what was added to `hidden`.

    None where that is no more than rounding.
    """
    off = (out - want).double().norm().item()
    update = (want - hidden).double().norm().item()
    noise = torch.finfo(want.dtype).eps * want.double().norm().item()
    return None if off <= SHARE[want.dtype] * update + 4 * noise else off / update
