"""A tiny model, a fixed stream of batches, and a loop that trains on part of it."""

import pytest
import torch
from torch import nn

from core.optim import Apollo


class TinyModel(nn.Module):
    """Both orientations, a bias, a norm, and fused experts."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 10)
        self.norm = nn.LayerNorm(10)
        self.experts = nn.Parameter(torch.randn(3, 10, 8) * 0.3)
        self.down = nn.Linear(8, 4, bias=False)

    def forward(self, inputs):
        hidden = self.norm(torch.tanh(self.up(inputs)))
        mixed = torch.tanh(torch.einsum("bi,eij->bj", hidden, self.experts))
        return self.down(mixed)


@pytest.fixture
def tiny_model():
    """Make a model with the same weights each time."""

    def make(seed=0, dtype=torch.float32):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return TinyModel().to(dtype)

    return make


@pytest.fixture
def apollo():
    """Make an optimizer over all named parameters, small enough for the tiny model."""

    def make(model, **options):
        options = {"lr": 1e-2, "rank": 2, "update_proj_gap": 3} | options
        return Apollo(model.named_parameters(), **options)

    return make


@pytest.fixture
def train():
    """Take the steps [first, last) of the stream; the batch depends on the step alone."""

    def run(model, optimizer, first, last):
        losses = []
        for step in range(first, last):
            generator = torch.Generator().manual_seed(step)
            dtype = next(model.parameters()).dtype
            inputs = torch.randn(8, 6, generator=generator).to(dtype)
            targets = torch.randn(8, 4, generator=generator).to(dtype)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return run


@pytest.fixture
def steps_like_adamw():
    """Hold an optimizer, made by `make(named, **options)`, against torch's AdamW for five steps."""

    def check(make, shape):
        options = {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-12, "weight_decay": 0.1}
        start = torch.randn(shape, generator=torch.Generator().manual_seed(99))
        ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        optimizers = make([("p", ours)], **options), torch.optim.AdamW([theirs], **options)
        for step in range(5):
            ours.grad = torch.randn(shape, generator=torch.Generator().manual_seed(step))
            theirs.grad = ours.grad.clone()
            for optimizer in optimizers:
                optimizer.step()
        torch.testing.assert_close(ours, theirs)

    return check
