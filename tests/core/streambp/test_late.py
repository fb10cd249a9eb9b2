"""The decoder's last norm is left to the head, where nobody watches it and nothing depends on it."""

import pytest
import torch

from core.streambp import Layout, attach, token_logps
from core.streambp.peak import LiveBytes


@pytest.mark.parametrize(
    ("family", "name"),
    [("llama", "norm"), ("gemma2", "norm"), ("gpt2", "ln_f"), ("gpt_neox", "final_layer_norm")],
)
def test_the_last_norm_is_found(family, name, tiny):
    model = tiny(family)
    with attach(model, chunk_tokens=4) as attached:
        assert attached.head.norm is not None
        assert attached.head.norm.module is getattr(attached.decoder, name)
    assert "forward" not in getattr(attached.decoder, name).__dict__


def test_an_attached_model_still_gives_whole_logits(tiny, batch):
    model, data = tiny("llama"), batch(lengths=(13,))
    want = model(input_ids=data.ids_BT, use_cache=False).logits
    with attach(model, chunk_tokens=4):
        got = model(input_ids=data.ids_BT, use_cache=False).logits
    torch.testing.assert_close(got, want)


def test_a_watched_norm_runs_once_and_whole(tiny, batch, plain_run, streamed_run, assert_same):
    model, data, shapes = tiny("llama"), batch(), []
    want = plain_run(model, data)
    model.model.norm.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out.shape)))
    with attach(model, chunk_tokens=4):
        shapes.clear()
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=5)
        assert shapes == [(2, 13, 32)]
    assert_same(streamed_run(model, data, 4), want, 5e-6)


def test_the_norm_of_a_row_is_never_there_as_a_whole(tiny):
    model, tokens = tiny("llama"), 512
    ids = torch.randint(3, 61, (1, tokens))
    kept = []
    for watched in (False, True):
        handle = model.model.norm.register_forward_hook(lambda *_: None) if watched else None
        with attach(model, chunk_tokens=16), LiveBytes() as live:
            logp = token_logps(
                model, ids, ids, Layout.causal([tokens], tokens), head_chunk_tokens=16
            )
            kept.append(live.now)
        del logp
        if handle:
            handle.remove()
    row = tokens * 32 * 8
    assert kept[1] - kept[0] >= row
