"""Recurrent layers are streamed by carrying their states, and the gradients of their states."""

import pytest
import torch

from core.streambp import attach

TOLERANCE = 2e-5  # the layer computes in float32 inside


@pytest.fixture
def hybrid(tiny):
    """A gated delta layer and an attention layer, as their family initialises them."""
    model = tiny("qwen3_next")
    torch.manual_seed(0)
    model.init_weights()
    fresh = type(model)(model.config).double()
    model.load_state_dict(fresh.state_dict())
    return model


@pytest.mark.parametrize("chunk", [2, 3, 5, 13, 14])
def test_gradients_cross_the_boundaries_of_chunks(
    hybrid, batch, plain_run, streamed_run, assert_same, chunk
):
    data = batch()
    with attach(hybrid, chunk_tokens=chunk) as attached:
        assert [report.status for report in attached.layers] == ["streamed"] * 2
    assert_same(streamed_run(hybrid, data, chunk), plain_run(hybrid, data), TOLERANCE)
