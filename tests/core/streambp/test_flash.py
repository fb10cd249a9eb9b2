"""Merged parts of a chunk's attention equal attention of the whole row under a mask."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import causal_mask_function, sliding_window_causal_mask_function

from core.streambp.flash import FlashChunk, FlashPlan
from core.streambp.kernels import CpuFlash
from core.streambp.keys import HeldKeys
from core.streambp.layout import Layout, Shared
from core.streambp.view import ChunkView
from core.streambp.visibility import Rule

TOKENS = 23
LAYOUTS = {
    "causal": Layout.causal([TOKENS] * 2, TOKENS),
    "packed": Layout.packed([[9, 14], [23]], TOKENS),
    "shared": Layout.packed([[Shared(8, (5, 1, 4)), 3]] * 2, TOKENS),
    "uneven": Layout.packed([[Shared(8, (5, 1, 4)), 3], [4, Shared(2, (9, 6))]], TOKENS),
}


def rule(layout, window):
    allows = sliding_window_causal_mask_function(window) if window else causal_mask_function
    return Rule(allows, layout, window, causal=window is None, sliding=window is not None)


def mask(layout, window):
    """(B, 1, T, T): what may be seen, from the segments alone."""
    position = layout.position_ids()
    index = torch.arange(layout.tokens)
    table = torch.zeros(len(layout.segments), layout.tokens, layout.tokens, dtype=torch.bool)
    for row, segments in enumerate(layout.segments):
        for segment in segments:
            own = slice(segment.start, segment.stop)
            table[row, own, own] = True
            for span in segment.prefix:
                table[row, own, span.start : span.stop] = True
    table &= index[:, None] >= index
    if window:
        table &= position[:, :, None] - position[:, None, :] < window
    return table[:, None]


@pytest.mark.parametrize("window", [None, 1, 4, 7, 16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bounds", [(0, 23), (6, 13), (11, 23), (22, 23)])
def test_a_chunk_and_its_gradients_equal_attention_under_a_mask(
    bounds, layout, window, monkeypatch
):
    monkeypatch.setattr("core.streambp.flash.KEYS_AT_ONCE", 3)
    torch.manual_seed(0)
    (start, stop), layout = bounds, LAYOUTS[layout]
    q = torch.randn(2, 4, TOKENS, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 2, TOKENS, 8, dtype=torch.float64, requires_grad=True) for _ in "kv")
    whole = scaled_dot_product_attention(
        q, k, v, attn_mask=mask(layout, window), scale=0.3, enable_gqa=True
    )
    want = whole[:, :, start:stop]
    weight = torch.randn_like(want)
    want_grads = torch.autograd.grad(want, [q, k, v], weight)

    held = HeldKeys(start, (k.detach()[:, :, :start], v.detach()[:, :, :start]))
    view = ChunkView(rule(layout, window), bounds, held)
    chunk = [x.detach()[:, :, start:stop].requires_grad_() for x in (q, k, v)]
    got = FlashChunk.apply(FlashPlan(CpuFlash(), 0.3, view, window), *chunk)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    grads = torch.autograd.grad(got, chunk, weight)
    for one, other in zip(grads, want_grads, strict=True):
        torch.testing.assert_close(one, other[:, :, start:stop], rtol=1e-10, atol=1e-10)
    earlier = [x[:, :, :start] for x in want_grads[1:]]
    sent = held.grads(0, start) or [torch.zeros_like(x) for x in earlier]
    for one, other in zip(sent, earlier, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_is_causal_with_fewer_queries_than_keys_would_be_another_attention():
    """Torch aligns 3 queries over 7 keys to the top left; a chunk's are the last."""
    q, (k, v) = torch.randn(1, 2, 3, 8), torch.randn(2, 1, 2, 7, 8)
    lower = torch.ones(3, 7, dtype=torch.bool).tril(4)
    want = scaled_dot_product_attention(q, k, v, attn_mask=lower)
    assert not torch.allclose(scaled_dot_product_attention(q, k, v, is_causal=True), want)
