"""The projection that is fitted to a gradient: what it keeps, when it is fitted, and resuming it."""

import pytest
import torch
from torch import nn

from core.optim import Apollo, OptionError, gaussian_projection, svd_projection


def matrix(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_it_is_orthonormal_and_keeps_a_low_rank_gradient_whole():
    grad_KL = matrix(3, 12, 2) @ matrix(3, 2, 7, seed=1)
    proj_LR = svd_projection(grad_KL, 2)
    assert proj_LR.shape == (3, 7, 2)
    torch.testing.assert_close(proj_LR.mT @ proj_LR, torch.eye(2).expand(3, 2, 2))
    torch.testing.assert_close(grad_KL @ proj_LR @ proj_LR.mT, grad_KL, rtol=1e-4, atol=1e-4)


def test_no_projection_of_that_rank_keeps_more():
    grad_KL = matrix(20, 9)
    kept = (grad_KL @ svd_projection(grad_KL, 3)).norm()
    torch.testing.assert_close(kept, torch.linalg.svdvals(grad_KL)[:3].norm())
    ours, _ = torch.linalg.qr(matrix(9, 3, seed=2))
    assert kept > (grad_KL @ ours).norm()


def test_signs_do_not_hang_on_the_library():
    grad_KL = matrix(20, 9)
    torch.testing.assert_close(svd_projection(-grad_KL, 3), svd_projection(grad_KL, 3))


def followed(shape, grads, **options):
    param = nn.Parameter(matrix(*shape))
    optimizer = Apollo([("w", param)], lr=1e-2, rank=2, projection="svd", **options)
    seen = []
    for grad in grads:
        param.grad = grad
        optimizer.step()
        seen.append(optimizer.state[param]["projection"].clone())
    return seen


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)], ids=str)
def test_it_is_fitted_to_the_gradient_of_every_refresh_and_kept_between(shape):
    grads = [matrix(*shape, seed=seed) for seed in range(5)]
    seen = followed(shape, grads, update_proj_gap=3)
    tall = [grad if shape == (9, 6) else grad.T for grad in grads]
    assert torch.equal(seen[0], svd_projection(tall[0], 2))
    assert torch.equal(seen[2], seen[0])
    assert torch.equal(seen[4], svd_projection(tall[3], 2))


def test_an_expert_that_is_silent_at_a_refresh_is_fitted_when_it_speaks():
    grads = [matrix(2, 9, 6, seed=seed) for seed in range(3)]
    grads[0][1] = 0.0
    seen = followed((2, 9, 6), grads)
    assert not seen[0][1].any()
    torch.testing.assert_close(seen[1][1], svd_projection(grads[1][1], 2))
    assert torch.equal(seen[1][0], seen[0][0])
    assert torch.equal(seen[2], seen[1])


def test_only_svd_keeps_its_projection_in_the_state():
    param = nn.Parameter(matrix(9, 6))
    param.grad = matrix(9, 6, seed=1)
    for projection in ("gaussian", "rademacher"):
        optimizer = Apollo([("w", param)], lr=1e-2, rank=2, projection=projection)
        optimizer.step()
        assert "projection" not in optimizer.state[param]


def test_a_projector_beside_svd_is_refused_for_nothing_would_read_it():
    named = [("w", nn.Parameter(matrix(9, 6)))]
    with pytest.raises(OptionError, match="projection = 'svd'"):
        Apollo(named, lr=1e-2, projection="svd", projector=gaussian_projection)
