"""Projections and their bits: known answers, the right distribution, one value per global index."""

import pytest
import torch

from core.optim.philox import philox, stream_key
from core.optim.projection import gaussian_projection

CPU = torch.device("cpu")
ONES = 0xFFFFFFFF


def draw(name="layer.weight", shape=(64, 48), rank=8, refresh=0, seed=0, **part):
    return gaussian_projection(name, shape, rank, refresh, seed=seed, device=CPU, **part)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_published_known_answers(counter, key, words):
    counter = tuple(torch.tensor([word]) for word in counter)
    assert philox(counter, key)[0].tolist() == list(words)


def test_a_stream_key_depends_on_purpose_seed_and_name():
    keys = {stream_key(*parts) for parts in [("p", 0, "a"), ("q", 0, "a"), ("p", 1, "a")]}
    assert len(keys | {stream_key("p", 0, "b")}) == 4


def test_golden_values_hold():
    assert draw()[:2, :4].tolist() == [
        [0.2507573962211609, 0.5225133299827576, 0.49899646639823914, -0.2658958435058594],
        [-0.18763093650341034, -0.07351741939783096, -0.08263790607452393, 0.11296848207712173],
    ]


def test_entries_are_independent_normals_of_variance_one_over_the_rank():
    proj = draw(shape=(4096, 2048), rank=128).double() * 128**0.5
    count = proj.numel()
    assert abs(proj.mean()) < 4 / count**0.5
    assert abs(proj.var() - 1) < 4 * (2 / count) ** 0.5
    assert abs((proj**4).mean() - 3) < 4 * (96 / count) ** 0.5
    assert proj.abs().max() > 4.2
    gram = proj.T @ proj / len(proj)
    assert (gram - torch.eye(128)).abs().max() < 6 / len(proj) ** 0.5
    assert abs((proj[1:] * proj[:-1]).mean()) < 4 / count**0.5


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("bounds", [(0, 48), (0, 13), (13, 31), (31, 48), (5, 5)], ids=str)
def test_a_slice_has_the_bits_of_the_whole(rank, bounds):
    part = draw(rank=rank, side=bounds)
    assert torch.equal(part, draw(rank=rank)[slice(*bounds)])


def test_a_shard_of_experts_has_the_bits_of_all():
    shape = (5, 16, 24)
    whole = draw(shape=shape)
    assert whole.shape == (5, 16, 8)
    assert torch.equal(draw(shape=shape, experts=(2, 4)), whole[2:4])
    assert torch.equal(draw(shape=shape, experts=(2, 4), side=(3, 9)), whole[2:4, 3:9])


def test_experts_have_projections_of_their_own():
    whole = draw(shape=(3, 16, 24))
    assert not torch.equal(whole[0], whole[1])
    assert not torch.equal(whole[1], whole[2])


@pytest.mark.parametrize(
    "other", [{"name": "other.weight"}, {"seed": 1}, {"refresh": 1}, {"seed": 2**40}], ids=str
)
def test_another_name_seed_or_refresh_gives_an_uncorrelated_projection(other):
    one, two = draw().flatten(), draw(**other).flatten()
    assert abs(torch.corrcoef(torch.stack([one, two]))[0, 1]) < 5 / len(one) ** 0.5


def test_the_order_of_drawing_and_torch_s_own_seed_change_nothing():
    first = draw("a")
    torch.manual_seed(7)
    draw("b")
    assert torch.equal(draw("a"), first)


def test_both_orientations_compress_the_smaller_side():
    assert draw(shape=(64, 48)).shape == (48, 8)
    assert torch.equal(draw(shape=(48, 64)), draw(shape=(64, 48)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_has_the_bits_of_the_cpu():
    shape, rank = (4096, 1024), 256
    there = gaussian_projection("w", shape, rank, 3, seed=5, device=torch.device("cuda"))
    here = gaussian_projection("w", shape, rank, 3, seed=5, device=CPU)
    assert torch.equal(there.cpu(), here)
