"""What an objective returns, and how a pass's share of a step's loss is made."""

from dataclasses import dataclass

import torch
from torch import Tensor

from core.objectives.errors import positive


@dataclass(frozen=True, slots=True)
class Loss:
    """``value``: a scalar to call backward on, this pass's share of the step's loss.

    ``sums``: figures that add up over the passes of a step, such as the sum of token losses.
    """

    value: Tensor
    sums: dict[str, float]


def share(total: Tensor, *, normaliser: float, **figures: Tensor) -> Loss:
    """A pass's share of the loss: its ``total`` over the whole step's count, and its ``figures``.

    Figures are scalars; they leave the device together. Raises NormaliserError.
    """
    values = torch.stack([figure.detach().double() for figure in figures.values()]).tolist()
    return Loss(total / positive(normaliser), dict(zip(figures, values, strict=True)))
