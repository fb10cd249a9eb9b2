"""Attention kernels that give the log-sum-exp with the output, so that parts can be merged.

Torch's flash operators are private to torch. They are reached through `flash_kernel` alone, which
compares each of them once per device, dtype and head width with plain attention, forward and
backward, and answers None where it is missing or disagrees.

Legend: B rows, H heads, Q queries, K keys, D head width.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

_aten = torch.ops.aten
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class Kernel(Protocol):
    """Attention of equal numbers of query and key heads; `causal` needs as many keys as queries."""

    def forward(
        self, q_BHQD: Tensor, k_BHKD: Tensor, v_BHKD: Tensor, causal: bool, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Output (B, H, Q, D) and log-sum-exp of the scores (B, H, Q)."""
        ...

    def backward(
        self,
        grad_BHQD: Tensor,
        inputs: tuple[Tensor, Tensor, Tensor],
        out_BHQD: Tensor,
        lse_BHQ: Tensor,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k, v. With the *merged* out and lse it is this part's exact share."""
        ...


@dataclass(frozen=True, slots=True)
class CpuFlash:
    """The flash kernel of torch's CPU build."""

    def forward(self, q, k, v, causal, scale):  # type: ignore[no-untyped-def]
        return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)

    def backward(self, grad, inputs, out, lse, causal, scale):  # type: ignore[no-untyped-def]
        return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, *inputs, out, lse, 0.0, causal, scale=scale
        )


@dataclass(frozen=True, slots=True)
class CudaFlash:
    """The flash kernel of torch's CUDA build: half precision."""

    def forward(self, q, k, v, causal, scale):  # type: ignore[no-untyped-def]
        out = _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return out[0], out[1]

    def backward(self, grad, inputs, out, lse, causal, scale):  # type: ignore[no-untyped-def]
        q, k, _ = inputs
        seed = torch.zeros(2, dtype=torch.uint64, device=q.device)  # unused: there is no dropout
        return _aten._scaled_dot_product_flash_attention_backward(
            grad, *inputs, out, lse, None, None, q.shape[2], k.shape[2], 0.0, causal, seed, seed,
            scale=scale,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CudaEfficient:
    """The memory-efficient kernel of torch's CUDA build: also float32. It pads lse to 32 queries."""

    def forward(self, q, k, v, causal, scale):  # type: ignore[no-untyped-def]
        out = _aten._scaled_dot_product_efficient_attention(
            q, k, v, None, True, 0.0, causal, scale=scale
        )
        return out[0], out[1][..., : q.shape[2]]

    def backward(self, grad, inputs, out, lse, causal, scale):  # type: ignore[no-untyped-def]
        padded = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf"))
        seed = torch.zeros((), dtype=torch.int64, device=lse.device)  # unused: there is no dropout
        grads = _aten._scaled_dot_product_efficient_attention_backward(
            grad, *inputs, None, out, padded, seed, seed, 0.0, [True, True, True, False], causal,
            scale=scale,
        )  # fmt: skip
        return grads[:3]


@cache
def flash_kernel(device_type: str, dtype: torch.dtype, width: int) -> Kernel | None:
    """The first kernel that agrees with plain attention for heads of `width`, or None."""
    candidates: tuple[Kernel, ...] = ()
    if device_type == "cpu":
        candidates = (CpuFlash(),)
    elif device_type == "cuda":
        candidates = (CudaFlash(), CudaEfficient())
    for kernel in candidates:
        if dtype in _TOLERANCE and _agrees(kernel, device_type, dtype, width):
            return kernel
    return None


def _agrees(kernel: Kernel, device_type: str, dtype: torch.dtype, width: int) -> bool:
    try:
        return all(_largest_error(kernel, device_type, dtype, width, causal) <= _TOLERANCE[dtype]
                   for causal in (True, False))  # fmt: skip
    except (RuntimeError, NotImplementedError, AttributeError):  # no such kernel in this build
        return False


def _largest_error(
    kernel: Kernel, device_type: str, dtype: torch.dtype, width: int, causal: bool
) -> float:
    generator = torch.Generator().manual_seed(0)
    shape = (4, 1, 2, 5, width)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    q, k, v, grad = drawn.to(device_type, dtype).unbind(0)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    with torch.enable_grad(), torch.autocast(device_type, enabled=False):
        scores = exact[0] @ exact[1].mT * 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        want = scores.softmax(-1) @ exact[2]
        wanted = [want, scores.logsumexp(-1), *torch.autograd.grad(want, exact, grad.double())]
    with torch.no_grad():
        out, lse = kernel.forward(q, k, v, causal, 0.5)
        got = [out, lse, *kernel.backward(grad, (q, k, v), out, lse, causal, 0.5)]
    errors = [(a.double() - b).abs().max() for a, b in zip(got, wanted)]
    return torch.stack(errors).max().item()  # a NaN survives this maximum, and then disagrees
