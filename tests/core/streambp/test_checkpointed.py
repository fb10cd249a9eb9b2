"""Layers that cannot be streamed are checkpointed whole: named, and just as exact."""

from dataclasses import replace

import pytest

from core.streambp import Layout, attach, token_logps
from core.streambp.errors import LayoutError


def test_a_family_with_a_bias_in_its_mask_is_checkpointed_and_exact(
    tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny("bloom"), batch()
    with attach(model, chunk_tokens=4) as attached:
        assert [r.status for r in attached.layers] == ["checkpointed"] * 2
        assert all(report.reason for report in attached.layers)
    assert_same(streamed_run(model, data, 4), plain_run(model, data), 1e-9)


def test_packed_documents_are_refused_where_a_layer_would_mix_them(tiny, batch):
    model, data = tiny("bloom"), batch()
    data = replace(data, layout=Layout.packed([[5, 8], [9]], 13))
    with attach(model, chunk_tokens=4), pytest.raises(LayoutError, match="mixes documents"):
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
