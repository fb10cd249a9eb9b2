"""int8 codes and a scale to each group of them: the arithmetic of Q-APOLLO's weights.

    s = max |w| / 127 over a group,    code = round(w / s) in -127 ... 127,    w ~ code s

Symmetric and group-wise along the last axis (Zhu et al., arXiv 2412.05270, section 4.3, with the
scheme of Jacob et al., arXiv 1712.05877, without its zero point): zero stays zero, and a group that
does not straddle zero keeps its values. A ragged last group has a scale of its own.

s is rounded up to 17 significant bits. A code has 7, so code * s is exact in float32: the same bits
on every device, and quantising what was dequantised gives the same codes and scales again.

Stochastic rounding takes w / s up with the probability of its fraction, so on average nothing is
lost: an update far below one code moves the weight in expectation.

Legend: N width, G groups of a row, J elements of a group; any axes before these.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from core.optim.errors import OptionError
from core.optim.noise import Noise
from core.optim.parts import parts

GROUP = 128

_CODES = 127
_SPARE_BITS = 24 - 17  # of float32's significant bits, which the scale leaves to the code
_SMALLEST = torch.finfo(torch.float32).tiny  # below it devices flush to zero
_STEPS = 1 << 16  # of the noise


def check_group(group: int) -> int:
    """Give `group` back; OptionError unless it is a power of two.

    Then the number of scales tells the group, and no saved state can be read with another one.
    """
    if isinstance(group, bool) or not isinstance(group, int) or group < 1 or group & (group - 1):
        raise OptionError("group", group, "use a power of two, such as 128")
    return group


def scales_shape(shape: torch.Size, group: int) -> torch.Size:
    """Give the shape of the scales of a weight: a group's worth less along the last axis."""
    return torch.Size((*shape[:-1], -(-shape[-1] // group)))


def quantise(
    value: Tensor,  # (..., N), any floating dtype
    group: int,  # elements that share a scale
    noise: Noise | None = None,  # None: to nearest
) -> tuple[Tensor, Tensor]:
    """Give codes, int8 of the same shape, and scales, float32 (..., G).

    A group with an infinity or a NaN becomes NaN as a whole: the damage stays visible. Of the
    value's digits float32's are used.
    """
    codes = torch.empty(value.shape, dtype=torch.int8, device=value.device)
    scales = torch.empty(scales_shape(value.shape, group), device=value.device)
    for index, first in parts(value.shape, value.device):
        part = value.detach()[index]
        drawn = None if noise is None else noise(first, first + part.numel()).view(part.shape)
        for columns, groups in _spans(part.shape[-1], group):
            part_GJ = _grouped(part[..., columns], groups).float()
            scale_G = _scale(part_GJ)
            scales[index][..., groups] = scale_G
            ratio_GJ = part_GJ / scale_G[..., None]
            if drawn is not None:
                ratio_GJ = _up_by_chance(ratio_GJ, _grouped(drawn[..., columns], groups))
            codes_GJ = ratio_GJ.round_().clamp_(-_CODES, _CODES).nan_to_num_(0.0)
            codes[index][..., columns] = codes_GJ.flatten(-2).to(torch.int8)
    return codes, scales


def dequantise(
    codes: Tensor,  # (..., N), int8
    scales: Tensor,  # (..., G), float32
    group: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Give code * scale, exact in float32 and wider, rounded to nearest where `dtype` is narrower."""
    if dtype.itemsize >= torch.float32.itemsize:
        return _product(codes, scales, group, dtype)
    out = torch.empty(codes.shape, dtype=dtype, device=codes.device)
    for index, _ in parts(codes.shape, codes.device):
        out[index] = _product(codes[index], scales[index], group, torch.float32)
    return out


def _product(codes: Tensor, scales: Tensor, group: int, dtype: torch.dtype) -> Tensor:
    out = codes.to(dtype)
    for columns, groups in _spans(codes.shape[-1], group):
        _grouped(out[..., columns], groups).mul_(scales[..., groups, None])
    return out


def _scale(part_GJ: Tensor) -> Tensor:
    least_G = part_GJ.abs().amax(-1).div_(_CODES)
    low = (1 << _SPARE_BITS) - 1
    scale_G = ((least_G.view(torch.int32) + low) & ~low).view(torch.float32)
    return torch.where(least_G.isfinite(), scale_G, torch.nan).clamp_(min=_SMALLEST)


def _up_by_chance(ratio: Tensor, lot: Tensor) -> Tensor:
    """Round up where the fraction is above a uniform number, down elsewhere."""
    low = ratio.floor()
    return low + ((ratio - low) * _STEPS > lot + 0.5)


def _grouped(x: Tensor, groups: slice) -> Tensor:
    """View the last axis as groups."""
    count = groups.stop - groups.start
    return x.unflatten(-1, (count, x.shape[-1] // count))


def _spans(width: int, group: int) -> Iterator[tuple[slice, slice]]:
    """Cut columns into those of whole groups and those of a ragged last one."""
    whole = width // group
    if whole:
        yield slice(0, whole * group), slice(0, whole)
    if width % group:
        yield slice(whole * group, width), slice(whole, whole + 1)
