"""Advantages of sampled answers: a reward less the mean of the answers to the same prompt.

    A_pg = (r_pg - mean_g r_pg) / (s + 1e-4)        arXiv 2402.03300, section 4.1.2

    group   s = standard deviation of the group's rewards
    batch   s = that of all rewards of the batch    arXiv 2508.08221: groups of nearly one mind stay small
    none    not divided                             arXiv 2503.20783: no bias towards easy or hard prompts

The standard deviation is the sample's (by G - 1). The paper has no 1e-4; TRL adds the same.

Legend: P prompts, G answers of each.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

from torch import Tensor

from core.objectives.errors import RewardError

EPSILON = 1e-4


@dataclass(frozen=True, slots=True)
class Advantages:
    """``advantage_PG``, float64; ``without_signal``: share of groups whose rewards are all the same."""

    advantage_PG: Tensor
    without_signal: float


def advantages(rewards_PG: Tensor, scaling: Literal["group", "batch", "none"]) -> Advantages:
    """What each answer is worth beside the others to its prompt; a group of equals is worth exactly 0.

    ``rewards_PG``: of all answers of one sampling, not of one pass: finite, at least two a prompt. Raises
    RewardError.
    """
    _check(rewards_PG)
    r_PG = rewards_PG.detach().double()
    flat_P1 = r_PG.amax(1, keepdim=True) == r_PG.amin(1, keepdim=True)
    # The mean of equal numbers may be off by a rounding, and dividing would make something of it.
    centred_PG = (r_PG - r_PG.mean(1, keepdim=True)).masked_fill(flat_P1, 0.0)
    match scaling:
        case "group":
            scaled_PG = centred_PG / (r_PG.std(1, keepdim=True) + EPSILON)
        case "batch":
            scaled_PG = centred_PG / (r_PG.std() + EPSILON)
        case "none":
            scaled_PG = centred_PG
        case _:
            assert_never(scaling)
    return Advantages(scaled_PG, float(flat_P1.double().mean()))


def _check(rewards_PG: Tensor) -> None:
    shape = tuple(rewards_PG.shape)
    if rewards_PG.ndim != len("PG") or rewards_PG.numel() == 0 or shape[1] == 1:
        raise RewardError("rewards", shape, "give (prompts, answers), at least one and two")
    if not bool(rewards_PG.isfinite().all()):
        strange = rewards_PG[~rewards_PG.isfinite()][0].item()
        raise RewardError("rewards", strange, "give finite numbers; grade a failed answer 0")
