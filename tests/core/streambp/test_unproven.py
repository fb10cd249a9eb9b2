"""A layer whose chunks cannot be proven to add up is named with the reason, and stays exact."""

import functools

import pytest
import torch

from core.streambp import attach
from core.streambp.errors import UnsupportedModelError


def changed(model, forward):
    """The model with the forward of its first layer wrapped: same weights, another layer type."""
    layer = model.model.layers[0]
    stock = type(layer)

    class Another(stock):
        pass

    Another.forward = forward(stock.forward)
    layer.__class__ = Another
    return model


def looks_ahead(stock):
    @functools.wraps(stock)
    def forward(*args, **given):
        out = stock(*args, **given)
        return out + out.mean(dim=1, keepdim=True)

    return forward


def looks_back(stock):
    """A running sum over tokens, which no cache carries from chunk to chunk."""

    @functools.wraps(stock)
    def forward(*args, **given):
        out = stock(*args, **given)
        return out + 0.1 * out.cumsum(dim=1)

    return forward


def takes_no_cache(stock):
    def forward(self, hidden_states, attention_mask=None, **given):
        for name in ("past_key_values", "cache"):
            given.pop(name, None)
        return stock(self, hidden_states, attention_mask=attention_mask, **given)

    return forward


REASONS = {
    looks_back: "chunks change its output",
    takes_no_cache: "takes no cache",
}


@pytest.mark.parametrize("kind", REASONS)
def test_it_is_checkpointed_with_the_reason_and_exact(
    kind, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = changed(tiny("qwen3"), kind), batch(13, (13, 13))
    with attach(model, chunk_tokens=4) as attached:
        first, second = attached.layers
        assert (first.status, second.status) == ("checkpointed", "streamed")
        assert first.name == "layers.0"
        assert REASONS[kind] in first.reason
    assert_same(streamed_run(model, data, 4), plain_run(model, data), 1e-6)


def test_one_that_looks_ahead_is_refused_by_name(tiny, batch):
    """Padding, of which no layer is told, would change the scores of real tokens."""
    model, ids = changed(tiny("qwen3"), looks_ahead), batch().ids_BT
    want = model(input_ids=ids).logits
    with pytest.raises(UnsupportedModelError, match=r"layers\.0 looks ahead"):
        attach(model, chunk_tokens=4)
    assert torch.equal(model(input_ids=ids).logits, want)
