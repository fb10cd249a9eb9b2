"""The private kernels are used only where they agree with plain attention."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from core.streambp.flash import FlashChunk, FlashPlan
from core.streambp.kernels import CpuFlash, CudaFlash, flash_kernel
from core.streambp.layout import Layout


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_cpu_kernel_is_found_and_the_others_are_not(dtype):
    assert flash_kernel("cpu", dtype, 8) == CpuFlash()
    assert flash_kernel("meta", dtype, 8) is None


def test_a_kernel_that_is_missing_or_wrong_is_not_taken(monkeypatch):
    class Wrong(CpuFlash):
        def forward(self, qkv, *, causal, scale):
            return CpuFlash.forward(self, qkv, causal=not causal, scale=scale)

    for kernel in (CudaFlash, Wrong):
        flash_kernel.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr("core.streambp.kernels.CpuFlash", kernel)
            assert flash_kernel("cpu", torch.float64, 8) is None
    flash_kernel.cache_clear()


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_merged_parts_equal_attention_under_a_lower_triangular_mask(key_heads):
    """Torch's is_causal aligns 3 queries over 7 keys to the top left; a chunk's are the last."""
    torch.manual_seed(0)
    query = torch.randn(2, 4, 3, 8, dtype=torch.float64, requires_grad=True)
    key, value = torch.randn(2, 2, key_heads, 7, 8, dtype=torch.float64).unbind(0)
    leaves = [
        x.clone().requires_grad_() for x in (key[:, :, 4:], value[:, :, 4:], key[:, :, :4], value[:, :, :4])
    ]  # fmt: skip
    pieces = Layout.causal([7, 7], 7).pieces(4, 7)
    got = FlashChunk.apply(FlashPlan(CpuFlash(), 0.3, pieces, 4, 0), query, *leaves)
    whole = [torch.cat([leaves[i + 2], leaves[i]], dim=2) for i in (0, 1)]
    mask = torch.ones(3, 7, dtype=torch.bool).tril(4)
    want = scaled_dot_product_attention(query, *whole, attn_mask=mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    weight = torch.randn_like(got)
    inputs = [query, *leaves]
    grads = zip(
        torch.autograd.grad(got, inputs, weight), torch.autograd.grad(want, inputs, weight),
        strict=True,
    )  # fmt: skip
    for one, other in grads:
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    trap = scaled_dot_product_attention(query, *whole, is_causal=True, scale=0.3, enable_gqa=True)
    assert not torch.allclose(trap, want)
