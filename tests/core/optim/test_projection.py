"""Projections and their bits: known answers, the right distribution, one value per global index."""

import pytest
import torch

from core.optim.philox import philox, stream_key
from core.optim.projection import gaussian_projection, rademacher_projection

CPU = torch.device("cpu")
ONES = 0xFFFFFFFF


RANDOM = {"gaussian": gaussian_projection, "rademacher": rademacher_projection}
BOTH = pytest.mark.parametrize("kind", RANDOM)


def draw(name="layer.weight", shape=(64, 48), rank=8, refresh=0, seed=0, kind="gaussian", **part):
    return RANDOM[kind](name, shape, rank, refresh, seed=seed, device=CPU, **part)


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
        [0.2383262664079666, 0.11629822105169296, 0.2807212769985199, 0.4582241475582123],
        [-0.7131569385528564, 0.447806715965271, 0.07355757802724838, -0.17752690613269806],
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


def test_signs_are_independent_and_equally_likely():
    proj = draw(kind="rademacher", shape=(4096, 2048), rank=128) * 128**0.5
    assert proj.unique().tolist() == pytest.approx([-1.0, 1.0])
    assert abs(proj.mean()) < 4 / proj.numel() ** 0.5
    gram = proj.T @ proj / len(proj)
    assert (gram - torch.eye(128)).abs().max() < 6 / len(proj) ** 0.5
    assert abs((proj[1:] * proj[:-1]).mean()) < 4 / proj.numel() ** 0.5


@BOTH
def test_on_average_p_times_its_transpose_is_the_identity(kind):
    refreshes, rank = 400, 16
    mean = sum(p @ p.T for p in (draw(rank=rank, refresh=i, kind=kind) for i in range(refreshes)))
    error = mean / refreshes - torch.eye(48)
    assert error.abs().max() < 6 * (2 / (refreshes * rank)) ** 0.5


@BOTH
def test_norms_are_kept_on_average_and_spread_as_two_over_the_rank(kind):
    rank = 32
    rows = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    rows /= rows.norm(dim=1, keepdim=True)
    squares = torch.stack(
        [(rows @ draw(rank=rank, refresh=i, kind=kind)).square().sum(dim=1) for i in range(300)]
    )
    assert (squares.mean(dim=0) - 1).abs().max() < 6 * (2 / rank / 300) ** 0.5
    assert squares.var() < 1.1 * 2 / rank


@BOTH
@pytest.mark.parametrize("rank", [1, 3, 8, 200])
@pytest.mark.parametrize("bounds", [(0, 48), (0, 13), (13, 31), (31, 48), (5, 5)], ids=str)
def test_a_slice_has_the_bits_of_the_whole(kind, rank, bounds):
    part = draw(rank=rank, side=bounds, kind=kind)
    assert torch.equal(part, draw(rank=rank, kind=kind)[slice(*bounds)])


@BOTH
def test_pieces_drawn_for_the_cache_are_one_draw(kind):
    shape, rank = (4096, 3000), 96  # more blocks than are drawn at once
    whole = draw(shape=shape, rank=rank, kind=kind)
    parts = [draw(shape=shape, rank=rank, kind=kind, side=side) for side in ((0, 7), (7, 3000))]
    assert torch.equal(torch.cat(parts), whole)


@BOTH
def test_a_shard_of_experts_has_the_bits_of_all(kind):
    shape = (5, 16, 24)
    whole = draw(shape=shape, kind=kind)
    assert whole.shape == (5, 16, 8)
    assert torch.equal(draw(shape=shape, kind=kind, experts=(2, 4)), whole[2:4])
    part = draw(shape=shape, kind=kind, experts=(2, 4), side=(3, 9))
    assert torch.equal(part, whole[2:4, 3:9])


@BOTH
def test_experts_have_projections_of_their_own(kind):
    whole = draw(shape=(3, 16, 24), kind=kind)
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
