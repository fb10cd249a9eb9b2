"""What an objective returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Loss:
    """``value``: a scalar to call backward on, this pass's share of the step's loss.

    ``sums``: figures that add up over the passes of a step, such as the sum of token losses.
    """

    value: Tensor
    sums: dict[str, float]
