"""Doubling the tokens doubles the memory and no more, in every layout and kind of attention."""

import math

import pytest
import torch

from core.streambp import Layout, Shared, answer_logps, attach, plain
from core.streambp.peak import LiveBytes

TOKENS = (512, 1024, 2048)
LAYOUTS = {
    "causal": lambda tokens: Layout.causal([tokens], tokens),
    "packed trees": lambda tokens: Layout.packed(
        [[tokens // 8, Shared(tokens // 4, (tokens // 8, 5, tokens // 4)), 3]], tokens
    ),
}


def peak(model, layout, chunk=None, **policy):
    """Bytes at once above the weights of a forward and backward pass; without a chunk: plain."""
    ids = torch.arange(layout.tokens)[None] % 50 + 3
    scored = layout.predictors() >= 0
    scored[:, layout.real[0] :] = False
    score = plain.answer_logps
    if chunk is not None:
        score = answer_logps
        attachment = attach(model, chunk_tokens=chunk, **policy)
    words = {} if chunk is None else {"head_chunk_tokens": 128}
    with LiveBytes() as live:
        score(model, ids, scored, layout, **words).sum().backward()
    if chunk is not None:
        attachment.detach()
    model.zero_grad()
    return live.peak


def exponent(sizes, peaks):
    """Slope of the line that fits log(peak) over log(tokens) best."""
    x, y = (torch.tensor([math.log(v) for v in values]) for values in (sizes, peaks))
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / x.square().sum())


@pytest.fixture
def small(tiny):
    def build(family):
        sizes = {"sliding_window": 64} if family in {"mistral", "gemma2"} else {}
        return tiny(family, num_hidden_layers=2, max_position_embeddings=8192, **sizes).float()

    return build


@pytest.mark.parametrize(
    ("family", "name", "keep", "sizes"),
    [
        ("llama", "causal", "hidden+attention", TOKENS),
        ("llama", "packed trees", "hidden", TOKENS[:2]),
        ("mistral", "causal", "hidden+kv", TOKENS[:2]),  # a sliding window
        ("gemma2", "packed trees", "hidden", TOKENS[:2]),  # its own attention function
        ("qwen3_next", "causal", "hidden", TOKENS[:2]),  # carries states
    ],
)
def test_memory_grows_no_faster_than_tokens(family, name, keep, sizes, small):
    model = small(family)
    peaks = [peak(model, LAYOUTS[name](tokens), chunk=128, keep=keep) for tokens in sizes]
    assert exponent(sizes, peaks) <= 1.1


def test_what_attends_without_chunks_grows_faster(small):
    """The measure sees a square where there is one."""
    sizes = TOKENS[:2]
    for family, chunk in (("gemma2", 2048), ("llama", None)):
        model = small(family)
        peaks = [peak(model, LAYOUTS["causal"](tokens), chunk) for tokens in sizes]
        assert exponent(sizes, peaks) > 1.4
