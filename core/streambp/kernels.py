"""Attention kernels that give the log-sum-exp with the output, so that parts can be merged.

Torch's flash operators are private to torch. They are reached through `flash_kernel` alone, which
compares each of them once per device, dtype and head width with plain attention, forward and
backward, and answers None where it is missing or disagrees.

Legend: B rows, H query heads, G key heads, Q queries, K keys, D head width.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from core.streambp.grouped import Inputs, Kernel, Packed, Repeating
from core.streambp.view import Attended

# ruff: noqa: SLF001  these operators are private to torch, and this is the one place that calls them
_aten = torch.ops.aten
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass(frozen=True, slots=True)
class CpuFlash:
    """The flash kernel of torch's CPU build."""

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """As Kernel.forward."""
        return _aten._scaled_dot_product_flash_attention_for_cpu(*qkv, 0.0, causal, scale=scale)

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """As Kernel.backward."""
        return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad_BHQD, *qkv, *attended, 0.0, causal, scale=scale
        )


@dataclass(frozen=True, slots=True)
class CudaFlash:
    """The flash kernel of torch's CUDA build: half precision."""

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """As Kernel.forward."""
        out, lse, *_ = _aten._scaled_dot_product_flash_attention(
            *qkv, 0.0, causal, False, scale=scale
        )
        return out, lse

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """As Kernel.backward."""
        queries, keys = qkv[0].shape[2], qkv[1].shape[2]
        out, lse = (x.contiguous() for x in attended)
        seed = torch.zeros(2, dtype=torch.uint64, device=grad_BHQD.device)  # there is no dropout
        return _aten._scaled_dot_product_flash_attention_backward(
            grad_BHQD, *qkv, out, lse, None, None, queries, keys, 0.0, causal, seed, seed,
            scale=scale,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CudaEfficient:
    """The memory-efficient kernel of torch's CUDA build: also float32. It pads lse to 32."""

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """As Kernel.forward."""
        out, lse, *_ = _aten._scaled_dot_product_efficient_attention(
            *qkv, None, True, 0.0, causal, scale=scale
        )
        return out, lse[..., : out.shape[2]]

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """As Kernel.backward."""
        out, lse = attended
        padded = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf"))
        seed = torch.zeros((), dtype=torch.int64, device=lse.device)  # there is no dropout
        dq, dk, dv, _ = _aten._scaled_dot_product_efficient_attention_backward(
            grad_BHQD, *qkv, None, out, padded, seed, seed, 0.0, [True, True, True, False], causal,
            scale=scale,
        )  # fmt: skip
        return dq, dk, dv


@cache
def flash_kernel(device_type: str, dtype: torch.dtype, width: int) -> Kernel | None:
    """Find the first kernel that agrees with plain attention for heads of `width`, or None."""
    candidates: tuple[Kernel, ...] = ()
    if device_type == "cpu":
        candidates = (CpuFlash(),)
    elif device_type == "cuda":
        candidates = (CudaFlash(), CudaEfficient())
    wrapped = (Packed(each) for bare in candidates for each in (bare, Repeating(bare)))
    for kernel in wrapped:
        if dtype in _TOLERANCE and _agrees(kernel, device_type, dtype, width):
            return kernel
    return None


def _agrees(kernel: Kernel, device_type: str, dtype: torch.dtype, width: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4, 1, 2, 5, width, generator=generator, dtype=torch.float64)
    q, k, v, grad = drawn.to(device_type, dtype).unbind(0)
    k, v = k[:, :1], v[:, :1]  # two query heads to one key head
    try:
        errors = [_error(kernel, grad, (q, k, v), causal=causal) for causal in (True, False)]
    except (RuntimeError, NotImplementedError, AttributeError):  # no such kernel in this build
        return False
    return all(error <= _TOLERANCE[dtype] for error in errors)


def _error(kernel: Kernel, grad_BHQD: Tensor, qkv: Inputs, *, causal: bool) -> float:
    exact = [x.detach().double().requires_grad_() for x in qkv]
    with torch.enable_grad(), torch.autocast(grad_BHQD.device.type, enabled=False):
        scores = exact[0] @ exact[1].mT * 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        out = scores.softmax(-1) @ exact[2]
        want = [out, scores.logsumexp(-1), *torch.autograd.grad(out, exact, grad_BHQD.double())]
    with torch.no_grad():
        attended = kernel.forward(qkv, causal=causal, scale=0.5)
        grads = kernel.backward(grad_BHQD, qkv, attended, causal=causal, scale=0.5)
    got = [*attended, *grads]
    errors = [(a.double() - b).abs().max() for a, b in zip(got, want, strict=True)]
    return torch.stack(errors).max().item()  # a NaN survives this maximum, and then disagrees
