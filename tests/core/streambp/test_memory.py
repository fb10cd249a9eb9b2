"""No tensor of tokens x tokens or tokens x vocabulary is ever made, in either direction."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from core.streambp import attach, token_logps


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


def largest(model, data, chunk, head):
    with attach(model, chunk_tokens=chunk), Largest() as watch:
        token_logps(
            model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=head
        ).sum().backward()
    return watch.elements


@pytest.mark.parametrize("family", ["llama", "gemma2", "mistral", "gpt2"])
def test_nothing_as_large_as_tokens_by_tokens_or_by_vocabulary(family, tiny, batch):
    tokens = 160
    data = batch(tokens, (tokens,), masked=0)
    made = largest(tiny(family), data, chunk=8, head=8)
    assert made < tokens * 61  # the smaller of the two: the vocabulary has 61 words
    assert largest(tiny(family), data, chunk=tokens, head=tokens) >= tokens * 61


def test_a_windowed_layer_holds_chunk_by_window_and_not_chunk_by_row(tiny, batch):
    model = tiny("mistral", sliding_window=4, num_hidden_layers=1, intermediate_size=8)
    sizes = {
        tokens: largest(model, batch(tokens, (tokens,), masked=0), chunk=8, head=4)
        for tokens in (128, 256)
    }
    assert sizes[256] == 2 * sizes[128] == 256 * 32  # what grows is the layer's input alone
