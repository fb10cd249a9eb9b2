"""A plain linear output is differentiated by hand, into one matrix; any other by autograd."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from core.streambp.projection import GraphProjection, PlainProjection, projection

WIDTH, WORDS = 6, 5000  # more words than one block


class WeightSized(TorchDispatchMode):
    """Counts operations that make a new tensor of the size of the weight."""

    def __init__(self):
        super().__init__()
        self.made = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        if isinstance(out, torch.Tensor) and out.numel() == WIDTH * WORDS:
            self.made += out.untyped_storage().data_ptr() not in known
        return out


def walk(kind, output, hidden_ND, dout_NV, tile):
    params = list(output.parameters())
    needs = [True] * (1 + len(params))
    made = kind(output, params, needs) if kind is GraphProjection else kind(params, needs)
    shares = []
    for start in range(0, len(hidden_ND), tile):
        made.out(hidden_ND[start : start + tile])
        shares.append(made.send_back(dout_NV[start : start + tile]))
    return [torch.cat(shares), *made.totals()]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_by_hand_equals_by_autograd(bias, dtype):
    torch.manual_seed(0)
    output = nn.Linear(WIDTH, WORDS, bias=bias, dtype=dtype)
    hidden, dout = torch.randn(7, WIDTH, dtype=dtype), torch.randn(7, WORDS, dtype=dtype)
    got, want = (walk(kind, output, hidden, dout, 3) for kind in (PlainProjection, GraphProjection))
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype == dtype
        near = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(one, other, rtol=near, atol=near)


def test_one_matrix_gathers_the_gradient_of_all_tiles():
    output = nn.Linear(WIDTH, WORDS, bias=False)
    hidden, dout = torch.randn(8, WIDTH), torch.randn(8, WORDS)
    with WeightSized() as watch:
        walk(PlainProjection, output, hidden, dout, 1)
    assert watch.made == 1


def test_only_a_bare_linear_module_is_plain():
    output = nn.Linear(WIDTH, 9)
    params, needs = list(output.parameters()), [True] * 3
    assert type(projection(output, params, needs)) is PlainProjection
    handle = output.register_forward_hook(lambda _m, _a, out: out * 2)
    assert type(projection(output, params, needs)) is GraphProjection
    handle.remove()
    assert type(projection(nn.Sequential(output), params, needs)) is GraphProjection


def test_what_needs_no_gradient_gets_none():
    output = nn.Linear(WIDTH, 9)
    for kind in (PlainProjection, lambda p, n: GraphProjection(output, p, n)):
        made = kind(list(output.parameters()), [False, False, True])
        made.out(torch.randn(2, WIDTH))
        assert made.send_back(torch.ones(2, 9)) is None
        weight, bias = made.totals()
        assert weight is None
        assert torch.equal(bias, torch.full((9,), 2.0))
