"""In which dtype attention computes, and in which long sums are taken."""

import torch
from torch import Tensor


def as_autocast(x: Tensor) -> Tensor:
    """Cast as autocast does for torch's public attention; it does not know the private kernels."""
    device = x.device.type
    if not torch.is_autocast_enabled(device) or x.dtype == torch.float64:
        return x
    return x.to(torch.get_autocast_dtype(device))


def summing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Long sums of half-precision gradients are taken in float32."""
    return torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype
