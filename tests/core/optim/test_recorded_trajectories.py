"""Follow the trajectories recorded from the authors' optimizer, with its projections injected.

The recipe: P = randn(shape, generator seeded with the parameter's seed) / sqrt(rank); after each
refresh the seed becomes the 15th draw of randint from a generator seeded with the old one.
"""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from core.optim import Apollo, gaussian_projection

RECORDS = sorted((Path(__file__).parents[2] / "data" / "apollo").glob("*.json"))
FIRST_SEED = {"0.weight": 2, "2.weight": 3}


def recorded_projector(name, shape, rank, refresh, **_):
    rows, columns = shape
    recorded_seed = FIRST_SEED[name]
    for _ in range(refresh):
        generator = torch.Generator().manual_seed(recorded_seed)
        draws = [torch.randint(0, 2**63 - 1, (1,), generator=generator) for _ in range(15)]
        recorded_seed = draws[-1].item()
    generator = torch.Generator().manual_seed(recorded_seed)
    if rows >= columns:
        return torch.randn(rank, columns, generator=generator).T / math.sqrt(rank)
    return torch.randn(rows, rank, generator=generator) / math.sqrt(rank)


def recorded_model():
    model = nn.Sequential(nn.Linear(24, 40), nn.Tanh(), nn.Linear(40, 16, bias=False))
    generator = torch.Generator().manual_seed(1234)
    with torch.no_grad():
        for param in (model[0].weight, model[0].bias, model[2].weight):
            param.copy_(torch.randn(param.shape, generator=generator) * 0.2)
    return model


def follow(config, *, scheduled, **overrides):
    model = recorded_model()
    generator = torch.Generator().manual_seed(99)
    inputs = torch.randn(600, 8, 24, generator=generator)
    targets = torch.randn(600, 8, 16, generator=generator)
    optimizer = Apollo(
        model.named_parameters(),
        lr=config["lr"],
        rank=config["rank"],
        scale=config["scale"],
        scaling=config["scale_type"],
        update_proj_gap=config["gap"],
        betas=tuple(config["betas"]),
        eps=config["eps"],
        weight_decay=config["wd"],
        growth_limit=None if config["disable_nl"] else 1.01,
        bias_correction=config["correct_bias"],
        **({"decay_after_update": True, "projector": recorded_projector} | overrides),
    )
    losses = []
    for step in range(config["steps"]):
        if scheduled:
            optimizer.param_groups[0]["lr"] = 0.001 * (step + 1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[step]), targets[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def load(record):
    recorded = json.loads(record.read_text())
    return recorded, torch.tensor(recorded["losses"])


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_losses_and_weights_follow_the_record_to_1e_5(record):
    recorded, expected_losses = load(record)
    model, losses = follow(recorded["config"], scheduled=record.stem.endswith("_sched"))
    torch.testing.assert_close(torch.tensor(losses), expected_losses, rtol=1e-5, atol=1e-5)
    final = {"W1": model[0].weight, "b1": model[0].bias, "W2": model[2].weight}
    for name, param in final.items():
        expected = torch.tensor(recorded["final"][name])
        torch.testing.assert_close(param.detach(), expected, rtol=1e-5, atol=1e-5, msg=name)


def test_all_nine_records_are_there():
    assert len(RECORDS) == 9


@pytest.mark.parametrize("record", RECORDS[:1] + RECORDS[2:3], ids=lambda path: path.stem)
def test_the_product_s_own_projections_train_about_as_far_but_on_another_path(record):
    recorded, expected = load(record)
    _, losses = follow(recorded["config"], scheduled=False, projector=gaussian_projection)
    assert losses[0] == pytest.approx(expected[0].item(), rel=1e-5)
    assert losses[-1] != pytest.approx(expected[-1].item(), rel=1e-5)
    assert losses[-1] == pytest.approx(expected[-1].item(), rel=0.25)
