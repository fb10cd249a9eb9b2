"""Low-rank adapters on a frozen model: exact, and only the adapters get gradient."""

import pytest
import torch
from torch import nn


class LowRank(nn.Module):
    """y = base(x) + up(down(dropout(x))), with `up` at zero in the beginning."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, dtype=base.weight.dtype)
        self.up = nn.Linear(rank, base.out_features, bias=False, dtype=base.weight.dtype)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapt(model: nn.Module, names: tuple[str, ...]) -> None:
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names:
                setattr(module, name, LowRank(child))


@pytest.mark.parametrize(
    "names", [("q_proj", "v_proj"), ("k_proj",), ("o_proj", "down_proj"), ("lm_head", "q_proj")]
)
def test_adapters_equal_plain_autograd(names, tiny, batch, plain_run, streamed_run, assert_same):
    torch.manual_seed(0)
    model = tiny("llama")
    adapt(model, names)
    got = streamed_run(model, batch(), 4)
    assert all(".up." in name or ".down." in name for name in got[1])
    assert any(grad.norm() > 0 for name, grad in got[1].items() if ".up." in name)
    assert_same(got, plain_run(model, batch()), 5e-6)


def test_an_adapter_on_the_last_layer_alone(tiny, batch, plain_run, streamed_run, assert_same):
    torch.manual_seed(0)
    model = tiny("qwen3")
    adapt(model.model.layers[-1], ("k_proj", "v_proj"))
    model.model.layers[0].requires_grad_(False)
    model.model.embed_tokens.requires_grad_(False)
    assert_same(streamed_run(model, batch(), 3), plain_run(model, batch()), 5e-6)
