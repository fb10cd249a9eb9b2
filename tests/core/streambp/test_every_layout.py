"""Every layout under every chunk length and policy gives plain autograd's gradients.

The model has it all at once: grouped heads, biases, norms on queries and keys, a sliding and a full
layer, one weight for embedding and head.
"""

import copy

import pytest
import torch

from core.streambp import Layout, Shared, answer_logps, attach, plain
from core.streambp.store import HostStore

HALVES = {
    "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
    "use_sliding_window": True,
}  # fmt: skip
FAMILIES = {  # what is changed of the tiny model, and the tolerance: that of its casts to float32
    "qwen3": ({**HALVES, "attention_bias": True, "tie_word_embeddings": True}, 1e-6),
    "gemma2": ({"tie_word_embeddings": False}, 1e-6),
    "gpt2": ({}, 1e-10),  # casts nothing
}
LAYOUTS = {
    "causal": lambda tokens: Layout.causal([tokens] * 2, tokens),
    "padded on the right": lambda tokens: Layout.causal([tokens, tokens - 4], tokens),
    "padded on the left": lambda tokens: Layout.packed([[5, tokens - 5], [1, tokens - 1]], tokens),
    "packed": lambda tokens: Layout.packed([[5, 1, tokens - 6], [tokens - 7, 3]], tokens),
    "shared prefix": lambda tokens: Layout.packed(
        [[Shared(3, (tokens - 7, 1, 3))], [Shared(tokens - 8, (2, 1)), 4]], tokens
    ),
}


def scored_of(name, layout):
    """Every token that another one predicts, without those of padding."""
    scored_BT = layout.predictors() >= 0
    for row, (segments, real) in enumerate(zip(layout.segments, layout.real, strict=True)):
        scored_BT[row, real:] = False
        if name == "padded on the left":
            scored_BT[row, : segments[0].stop] = False
    return scored_BT


def run(model, name, tokens, chunk=None, **policy):
    """Log-probabilities and gradients, streamed in chunks or, without a chunk length, plain."""
    model, layout = copy.deepcopy(model), LAYOUTS[name](tokens)
    made = torch.Generator().manual_seed(2)
    ids_BT = torch.randint(3, 61, (2, tokens), generator=made)
    weight_BT = torch.randn(2, tokens, generator=made, dtype=torch.float64)
    scored_BT = scored_of(name, layout)
    if chunk is None:
        logp_BT = plain.answer_logps(model, ids_BT, scored_BT, layout)
    else:
        attach(model, chunk_tokens=chunk, **policy)
        logp_BT = answer_logps(model, ids_BT, scored_BT, layout, head_chunk_tokens=7)
    (logp_BT * weight_BT).sum().backward()
    return logp_BT.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(
    ("family", "tokens", "lengths"),
    [*[(family, 13, (1, 3, 13, 14)) for family in FAMILIES], ("qwen3", 67, (64,))],
)
def test_gradients_equal_plain_autograd(family, name, tokens, lengths, tiny, assert_same):
    overrides, tolerance = FAMILIES[family]
    model = tiny(family, **overrides)
    want = run(model, name, tokens)
    for chunk in lengths:
        assert_same(run(model, name, tokens, chunk), want, tolerance)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("store", ["device", "cpu", "disk"])
def test_no_policy_changes_them(store, name, tiny, assert_same, monkeypatch, tmp_path):
    model = tiny("qwen3", **FAMILIES["qwen3"][0])
    want = run(model, name, 13, 4)
    if store == "cpu":  # the store of a GPU's host, which fetches ahead, works here too
        host = HostStore(torch.device("cpu"))
        monkeypatch.setattr("core.streambp.policy.DeviceStore", lambda: host)
    folder = tmp_path if store == "disk" else None
    for keep in ("hidden", "hidden+attention", "hidden+kv"):
        got = run(model, name, 13, 4, keep=keep, store=store, folder=folder)
        assert_same(got, want, 1e-12)


@pytest.mark.parametrize("tokens", [1, 2])
def test_the_shortest_rows(tokens, tiny, batch, plain_run, streamed_run, assert_same):
    model, data = tiny("qwen3"), batch(tokens, (tokens,) * 2, masked=0)
    for chunk in (1, 2, 3):
        assert_same(streamed_run(model, data, chunk), plain_run(model, data), 1e-6)
