"""Packed documents do not see each other, and padding on either side changes nothing."""

from dataclasses import replace

import pytest
import torch

from core.streambp import Layout, attach, token_logps
from core.streambp.errors import LayoutError, TargetError


@pytest.mark.parametrize("family", ["llama", "gpt2", "mistral", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("chunk", [1, 4, 13])
def test_packed_rows_equal_documents_run_alone(
    family, chunk, tiny, batch, plain_run, streamed_run, assert_same
):
    data = replace(batch(), layout=Layout.packed([[5, 1, 7], [6, 3]], 13))
    model = tiny(family)
    assert_same(streamed_run(model, data, chunk), plain_run(model, data), 5e-6)


def test_changing_one_document_leaves_the_other_bit_equal(tiny, batch):
    data, layout = batch(), Layout.packed([[5, 8], [6, 3]], 13)
    changed = data.ids_BT.clone()
    changed[:, :5] = 7
    with attach(tiny("llama"), chunk_tokens=4) as attached:
        one, other = (
            token_logps(attached.model, ids, data.targets_BT, layout, head_chunk_tokens=64)
            for ids in (data.ids_BT, changed)
        )
    assert torch.equal(one[0, 5:], other[0, 5:])
    assert not torch.equal(one[0, :5], other[0, :5])


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_left_padded_row_counts_only_real_tokens(family, tiny, batch):
    data, model = batch(9, (9,), masked=0), tiny(family)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), data.ids_BT], dim=1)
    targets = torch.cat([torch.full((1, 4), -100), data.targets_BT], dim=1)
    with attach(model, chunk_tokens=3):
        want = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        got = token_logps(model, padded, targets, Layout.packed([[4, 9]], 13), head_chunk_tokens=4)
    torch.testing.assert_close(got[:, 4:], want, rtol=1e-9, atol=1e-9)


def test_a_mask_with_padding_on_the_left_is_refused_not_dropped(tiny, batch):
    model, ids = tiny("llama"), batch().ids_BT
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    with attach(model, chunk_tokens=4), pytest.raises(ValueError, match="pad on the right"):
        model(input_ids=ids, attention_mask=mask)


def test_a_layout_of_other_rows_or_scored_padding_is_refused(tiny, batch):
    data, model = batch(), tiny("llama")
    with attach(model, chunk_tokens=4):
        with pytest.raises(LayoutError, match="2 rows of 13 tokens"):
            token_logps(
                model, data.ids_BT, data.targets_BT, Layout.causal([13], 13), head_chunk_tokens=4
            )
        with pytest.raises(TargetError, match="padded"):
            token_logps(model, data.ids_BT, data.ids_BT, data.layout, head_chunk_tokens=4)


@pytest.mark.parametrize("window", [None, 4, 64])
@pytest.mark.parametrize("chunk", [2, 6])
def test_a_token_outside_the_window_changes_nothing(window, chunk, tiny, batch):
    data = batch(12, (12,), masked=0)
    changed = data.ids_BT.clone()
    changed[0, 3] = 5
    model = tiny("mistral", sliding_window=window, num_hidden_layers=1)
    with attach(model, chunk_tokens=chunk):
        one, other = (
            token_logps(model, ids, data.targets_BT, data.layout, head_chunk_tokens=64)
            for ids in (data.ids_BT, changed)
        )
    reached = (one != other)[0].nonzero()[:, 0].tolist()
    assert reached == list(range(3, 7 if window == 4 else 12))
