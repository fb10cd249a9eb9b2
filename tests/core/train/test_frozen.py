"""A frozen model with small trainable matrices beside its weights, as LoRA has, under every optimizer."""

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from core.models.load import load_model
from core.optim import FusedStep, Int8Weight, NamedOptimizer, OptionError, quantise_model
from core.spec.optimizer import OptimizerSpec
from core.streambp import Layout, attach, backward_linear
from core.train.optimizer import optimizer_of

RANK, TOKENS, VOCABULARY = 4, 24, 64
KINDS = {"adamw": 0.02, "sgd": 10.0, "apollo": 0.02, "apollo_mini": 0.02, "scale": 0.02}
OURS = ("apollo", "apollo_mini", "scale")


class WithAdapter(nn.Module):
    """A frozen linear layer, and B A beside it; B begins at zero."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs):
        return self.base(inputs) + self.up(self.down(inputs))


@pytest.fixture
def adapted(toy_model):
    def build(*, int8=False):
        model = load_model(toy_model, torch.device("cpu"))
        if int8:
            quantise_model(model)
        model.requires_grad_(requires_grad=False)
        torch.manual_seed(0)
        for layer in model.model.layers:
            layer.self_attn.q_proj = WithAdapter(layer.self_attn.q_proj)
            layer.mlp.down_proj = WithAdapter(layer.mlp.down_proj)
        attach(model, chunk_tokens=8)
        return model

    return build


def learnt(model, kind, *, fused):
    """Losses of twelve steps on one row, and what the weights were before."""
    chosen = TypeAdapter(OptimizerSpec).validate_python({"kind": kind})
    optimizer = optimizer_of(chosen, model, rate=KINDS[kind], seed=0)
    row_BT = torch.randint(VOCABULARY, (1, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    weight_BT = torch.full((1, TOKENS), -1 / TOKENS)
    layout, losses = Layout.causal([TOKENS], TOKENS), []
    settle = None
    if fused:
        assert isinstance(optimizer, NamedOptimizer)
        settle = FusedStep(optimizer)
    for _ in range(12):
        scored = row_BT[:, :-1], row_BT[:, 1:], layout
        logp_BT = backward_linear(model, *scored, weight_BT, head_chunk_tokens=8, settle=settle)
        losses.append(-logp_BT.mean().item())
        optimizer.step() if settle is None else settle.finish()
        optimizer.zero_grad()
    return losses


def values(model, *, trainable):
    return {
        name: (param.codes if isinstance(param, Int8Weight) else param).detach().clone()
        for name, param in model.named_parameters()
        if param.requires_grad is trainable
    }


@pytest.mark.parametrize(
    ("kind", "fused", "int8"),
    [(kind, False, False) for kind in ("adamw", "sgd")]
    + [(kind, fused, int8) for kind in OURS for fused in (False, True) for int8 in (False, True)],
)
def test_the_adapter_learns_and_the_frozen_model_keeps_its_bits(adapted, kind, fused, int8):
    model = adapted(int8=int8)
    frozen, trained = values(model, trainable=False), values(model, trainable=True)
    losses = learnt(model, kind, fused=fused)
    assert losses[-1] < losses[0] - 0.05
    for name, value in values(model, trainable=False).items():
        assert torch.equal(value, frozen[name]), name
    for name, value in values(model, trainable=True).items():
        assert not torch.equal(value, trained[name]), name


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_torch_s_own_refuse_int8_weights_before_the_first_step(adapted, kind):
    model = adapted(int8=True).requires_grad_()
    with pytest.raises(OptionError, match=rf"optimizer = '{kind}'.*apollo_mini"):
        learnt(model, kind, fused=False)
