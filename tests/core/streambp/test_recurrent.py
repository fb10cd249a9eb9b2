"""Layers that carry states stream, and the gradient of a state goes back to the chunk before."""

from dataclasses import replace

import pytest
import torch

from core.streambp import Layout, attach, token_logps
from core.streambp.carried import CarriedStates
from core.streambp.errors import LayoutError

_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2,
    "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
_MAMBA = {
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8,
    "mamba_chunk_size": 8,
}  # fmt: skip
FAMILIES = {
    "qwen3_next": {},
    "qwen3_5_text": _LINEAR,
    "olmo_hybrid": _LINEAR,
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "bamba": {"attn_layer_indices": [1], **_MAMBA},
    "falcon_h1": {"mamba_d_ssm": 64, **_MAMBA},  # attention and recurrence in one layer
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8},
    "minimax": {
        "layer_types": ["linear_attention", "full_attention"], "num_local_experts": 2,
        "num_experts_per_tok": 1, "block_size": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_streams_and_equals_plain_autograd(
    family, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny(family, **FAMILIES[family]), batch()
    with attach(model, chunk_tokens=4) as attached:
        assert [report.status for report in attached.layers] == ["streamed"] * 2
        assert attached.layers[0].carries
    want = plain_run(model, data)
    for chunk in (1, 4, 5, 13):
        assert_same(streamed_run(model, data, chunk), want, 1e-5)


def test_a_recurrence_that_cannot_go_on_is_checkpointed_and_exact(
    tiny, batch, plain_run, streamed_run, assert_same
):
    data = batch()
    model = tiny(
        "jamba", attn_layer_period=2, attn_layer_offset=1, num_experts=2, num_experts_per_tok=1,
        use_mamba_kernels=False, mamba_d_state=8, mamba_dt_rank=4,
    )  # fmt: skip
    with attach(model, chunk_tokens=4) as attached:
        assert [report.status for report in attached.layers] == ["checkpointed", "streamed"]
        assert "chunks change its output" in attached.layers[0].reason
    assert_same(streamed_run(model, data, 4), plain_run(model, data), 1e-5)


def test_packed_documents_are_refused_where_states_would_mix_them(tiny, batch):
    model, data = tiny("qwen3_next"), batch()
    data = replace(data, layout=Layout.packed([[5, 8], [9]], 13))
    with (
        attach(model, chunk_tokens=4),
        pytest.raises(LayoutError, match=r"layers\.0 mixes documents"),
    ):
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)


def test_a_later_token_sends_gradient_through_states_to_the_first_chunk(tiny, batch):
    data = batch(12, (12,), masked=11)  # the last token alone is scored
    data.ids_BT[0] = torch.arange(3, 15)
    model = tiny("lfm2", layer_types=["conv", "conv"], conv_L_cache=6, tie_word_embeddings=False)
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        logp.sum().backward()
    reached = model.get_input_embeddings().weight.grad.norm(dim=1) > 0
    assert reached[data.ids_BT[0, 1]]  # eleven back: two convolutions over six tokens
    assert not reached[data.ids_BT[0, 0]]


@pytest.mark.parametrize("sizes", [(3, 2, 4), (1, 1, 1)])
def test_convolution_states_are_the_last_inputs_padded_at_the_beginning(sizes):
    row = torch.randn(1, 2, sum(sizes))
    states, start = {}, 0
    for size in sizes:
        cache = CarriedStates(states)
        whole = cache.update_conv_state(row[..., start : start + size], 0, conv_kernel_size=4)
        padded = torch.nn.functional.pad(row[..., : start + size], (4, 0))
        assert torch.equal(whole, padded[..., -whole.shape[-1] :])
        assert whole.shape[-1] >= min(size + 3, 4)
        states, start = cache.outgoing, start + size
        assert torch.equal(states["convolution", 0], padded[..., -4:])


def test_a_state_is_not_changed_by_a_layer_that_writes_over_it():
    before = torch.ones(2, 2)
    cache = CarriedStates({("recurrence", 0): before})
    cache.get_recurrent_state(0).zero_()
    assert torch.equal(before, torch.ones(2, 2))
