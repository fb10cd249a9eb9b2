"""A streamed model decodes with a cache where streaming is paused, and streams on afterwards."""

import pytest
import torch

from core.streambp import attach, token_logps, unstreamed
from core.streambp.errors import LayerCallError

FAMILIES = ["llama", "gemma3_text", "gpt2", "qwen3_next", "bloom"]


@torch.no_grad()
def decoded(model, ids_BT):
    """Logits of the last three tokens, read one by one after the others."""
    read = model(input_ids=ids_BT[:, :-3], use_cache=True)
    cache, logits = read.cache, []
    for place in (-3, -2, -1):
        token_B1 = ids_BT[:, [place]]
        logits.append(model(input_ids=token_B1, cache=cache, use_cache=True).logits)
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_paused_model_decodes_bit_for_bit_as_a_stock_one(family, tiny, batch):
    model, ids = tiny(family).eval(), batch().ids_BT
    with unstreamed(model):  # stock: left as it is
        want = decoded(model, ids)
    with attach(model, chunk_tokens=4), unstreamed(model):
        assert torch.equal(decoded(model, ids), want)


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_pause_the_model_streams_bit_for_bit_as_before(family, tiny, batch):
    model, data = tiny(family).eval(), batch()
    scored = (data.ids_BT, data.targets_BT, data.layout)
    with attach(model, chunk_tokens=4):
        before = [module.__dict__.copy() for module in model.modules()]
        want = token_logps(model, *scored, head_chunk_tokens=5)
        with unstreamed(model):
            decoded(model, data.ids_BT)
        with pytest.raises(ZeroDivisionError), unstreamed(model):
            raise ZeroDivisionError
        for module, was in zip(model.modules(), before, strict=True):
            now = module.__dict__
            assert now.keys() == was.keys()
            assert all(now[name] is was[name] for name in was)
        assert torch.equal(token_logps(model, *scored, head_chunk_tokens=5), want)
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_a_streamed_layer_refuses_a_cache_and_names_the_way(tiny, batch):
    model = tiny("llama").eval()
    with attach(model, chunk_tokens=4), pytest.raises(LayerCallError, match="unstreamed"):
        model(input_ids=batch().ids_BT, use_cache=True)


def test_a_window_of_zero_stays_open_in_a_pause(tiny, batch):
    ids = batch().ids_BT
    model = tiny("mistral", sliding_window=None).eval()
    want = model(input_ids=ids, use_cache=False).logits
    model.config.sliding_window = 0
    with attach(model, chunk_tokens=4), unstreamed(model):
        torch.testing.assert_close(model(input_ids=ids, use_cache=False).logits, want)
