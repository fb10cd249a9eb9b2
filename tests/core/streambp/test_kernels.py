"""The private kernels are used only where they agree with plain attention."""

import pytest
import torch

from core.streambp.grouped import Packed, Repeating
from core.streambp.kernels import CpuFlash, CudaFlash, flash_kernel


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_cpu_kernel_is_found_and_the_others_are_not(dtype):
    assert flash_kernel("cpu", dtype, 8) == Packed(CpuFlash())
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


def test_a_kernel_without_grouped_heads_gets_repeated_ones(monkeypatch):
    class Ungrouped(CpuFlash):
        def forward(self, qkv, *, causal, scale):
            if qkv[0].shape[1] != qkv[1].shape[1]:
                raise RuntimeError("as many key heads as query heads")
            return CpuFlash.forward(self, qkv, causal=causal, scale=scale)

    flash_kernel.cache_clear()
    monkeypatch.setattr("core.streambp.kernels.CpuFlash", Ungrouped)
    assert flash_kernel("cpu", torch.float64, 8) == Packed(Repeating(Ungrouped()))
    flash_kernel.cache_clear()


@pytest.mark.parametrize("causal", [True, False])
def test_packing_the_queries_of_a_group_changes_nothing(causal):
    torch.manual_seed(0)
    queries = keys = 6
    q, grad = torch.randn(2, 2, 4, queries, 8, dtype=torch.float64)
    k, v = torch.randn(2, 2, 2, keys, 8, dtype=torch.float64)
    runs = []
    for kernel in (CpuFlash(), Packed(CpuFlash())):
        attended = kernel.forward((q, k, v), causal=causal, scale=0.5)
        grads = kernel.backward(grad, (q, k, v), attended, causal=causal, scale=0.5)
        runs.append((*attended, *grads))
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one, other)
