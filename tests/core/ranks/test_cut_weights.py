"""Optimizers on weights whose rows are cut over ranks: what one process would do, on every rank's rows."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from core.optim import APOLLO, APOLLO_MINI, Apollo, Scale, gradient_norm

SHAPES = {
    "tall": (6, 4),
    "wide": (4, 6),
    "uneven": (5, 3),
    "row": (1, 8),
    "vector": (5,),
    "experts": (3, 4, 6),
}
MAKE = {
    "apollo": lambda params: Apollo(params, lr=0.01, **APOLLO | {"rank": 2, "update_proj_gap": 2}),
    "rademacher": lambda params: Apollo(params, lr=0.01, projection="rademacher", rank=3),
    "apollo_mini": lambda params: Apollo(params, lr=0.01, weight_decay=0.1, **APOLLO_MINI),
    "adamw": lambda params: Apollo(params, lr=0.01, rank=None),
    "scale": lambda params: Scale([{"params": params, "momentum": 0.9, "input_axis": -2}], lr=0.01),
}
STEPS = 3


def drawn(dtype):
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    grads = [
        {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        for _ in range(STEPS)
    ]
    return {name: value.to(dtype) for name, value in weights.items()}, grads


def stepped(weights, grads, name, spread=lambda value: value):
    params = {key: torch.nn.Parameter(spread(value.clone())) for key, value in weights.items()}
    optimizer = MAKE[name](list(params.items()))
    norms = []
    for step in grads:
        for key, param in params.items():
            param.grad = spread(step[key].to(param.dtype))
        norms.append(gradient_norm(params.values()))
        optimizer.step()
    return params, optimizer, norms


def on_rank(crew, names, dtype, placement):
    mesh = init_device_mesh("cpu", (crew.size,))
    weights, grads = drawn(dtype)

    def spread(value):
        return distribute_tensor(value, mesh, [placement], src_data_rank=None)

    found = {}
    for name in names:
        params, optimizer, norms = stepped(weights, grads, name, spread)
        whole = {key: param.full_tensor().detach() for key, param in params.items()}
        found[name] = whole, optimizer.state_dict(), norms
        again = MAKE[name](list(params.items()))
        again.load_state_dict(optimizer.state_dict())
        again.state_dict()
        for param in params.values():
            for field, value in optimizer.state[param].items():
                assert torch.equal(
                    torch.as_tensor(again.state[param][field]), torch.as_tensor(value)
                )
    return found


@pytest.mark.parametrize("placement", [Shard(0), Replicate()], ids=["cut", "replicated"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
def test_weights_state_and_norms_are_those_of_one_process(on_ranks, placement, dtype):
    weights, grads = drawn(dtype)
    told = on_ranks(3, on_rank, list(MAKE), dtype, placement)
    for name in MAKE:
        params, optimizer, norms = stepped(weights, grads, name)
        for whole, state, their_norms in (one[name] for one in told):
            assert their_norms == pytest.approx(norms, rel=1e-5 if dtype == torch.float64 else 1e-2)
            for key, param in params.items():
                if dtype == torch.float64:
                    torch.testing.assert_close(whole[key], param.detach(), rtol=1e-10, atol=1e-12)
                else:  # rounded by the bits of the whole: equal but where a sum's last digit decided
                    assert (whole[key] != param).float().mean() < 0.1
            assert shapes(state) == shapes(optimizer.state_dict())


def shapes(state):
    return {
        (number, field): getattr(value, "shape", value)
        for number, one in state["state"].items()
        for field, value in one.items()
    }
