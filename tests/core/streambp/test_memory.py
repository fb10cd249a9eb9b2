"""No tensor of tokens x tokens or tokens x vocabulary is ever made, in either direction."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from core.streambp import Layout, answer_logps, attach


class Largest(TorchDispatchMode):
    """Records the most elements in any one tensor that an operation gave back."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return out


def largest(model, data, chunk, head, **policy):
    with attach(model, chunk_tokens=chunk, **policy), Largest() as watch:
        scored = (data.layout.predictors() >= 0) & (data.targets_BT != -100)
        answer_logps(
            model, data.ids_BT, scored, data.layout, head_chunk_tokens=head
        ).sum().backward()
    return watch.elements


LAYOUTS = {
    "causal": Layout.causal([160], 160),
    "packed": Layout.packed([[60, 1, 99]], 160),
    "padded on the left": Layout.packed([[70, 90]], 160),
    "shared prefix": Layout.shared_prefix(70, [50, 40], 160),
}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *[(family, "causal") for family in ("llama", "gemma2", "mistral", "gpt2")],
        *[("mistral", name) for name in LAYOUTS if name != "causal"],
        ("llama", "shared prefix"),
    ],
)
def test_nothing_as_large_as_tokens_by_tokens_or_by_vocabulary(name, family, tiny, batch):
    tokens = 160
    data = replace(batch(tokens, (tokens,), masked=0), layout=LAYOUTS[name])
    made = largest(tiny(family), data, chunk=8, head=8, keep="hidden+attention")
    assert made < tokens * 61  # the smaller of the two: the vocabulary has 61 words
    if name == "causal":
        assert largest(tiny(family), data, chunk=tokens, head=tokens) >= (tokens - 1) * 61


def test_a_windowed_layer_holds_chunk_by_window_and_not_chunk_by_row(tiny, batch):
    model = tiny("mistral", sliding_window=4, num_hidden_layers=1, intermediate_size=8)
    sizes = {
        tokens: largest(model, batch(tokens, (tokens,), masked=0), chunk=8, head=4)
        for tokens in (128, 256)
    }
    assert sizes[256] == 2 * sizes[128] == 256 * 32  # what grows is the layer's input alone
