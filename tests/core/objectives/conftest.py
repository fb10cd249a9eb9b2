"""Specs of objectives, and a step of sampled answers that can be cut into passes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from core.objectives import Loss, grpo, step_normaliser
from core.spec.grader import StringCheckGrader
from core.spec.objective import GrpoSpec

GRADER = StringCheckGrader(input="{{ sample.output_text }}", reference="4", operation="eq")


@pytest.fixture
def grpo_spec() -> Callable[..., GrpoSpec]:
    def build(loss: str = "dapo", **words: Any) -> GrpoSpec:
        return GrpoSpec.parse({"grader": GRADER, "loss": loss, **words})

    return build


@dataclass(frozen=True)
class Sampled:
    """Rows of one answer each; answer r is row r, of so many tokens."""

    logp_BT: Tensor
    old_BT: Tensor
    reference_BT: Tensor
    scored_BT: Tensor
    advantage_A: Tensor

    def loss(self, spec: GrpoSpec, logp_BT: Tensor, rows: slice) -> Loss:
        """The share of a pass that holds these rows."""
        scored = self.scored_BT[rows]
        number = torch.arange(len(scored))[:, None].expand_as(scored)
        answers, tokens = len(self.scored_BT), int(self.scored_BT.sum())
        return grpo(
            logp_BT[rows], self.old_BT[rows], number.where(scored, -1), self.advantage_A[rows],
            spec, normaliser=step_normaliser(spec, answers=answers, tokens=tokens),
            reference_BT=self.reference_BT[rows],
        )  # fmt: skip

    def run(self, spec: GrpoSpec, *cuts: int) -> tuple[float, dict[str, float], Tensor]:
        """Value, sums and gradient of the step, cut before these rows."""
        leaf = self.logp_BT.clone().requires_grad_()
        borders = [0, *cuts, len(leaf)]
        losses = [self.loss(spec, leaf, slice(*ends)) for ends in pairwise(borders)]
        for loss in losses:
            loss.value.backward()
        sums = {name: sum(loss.sums[name] for loss in losses) for name in losses[0].sums}
        return sum(loss.value.item() for loss in losses), sums, leaf.grad


@pytest.fixture
def sampled() -> Sampled:
    """Seven answers of 1 to 7 tokens; some ratios are far outside of any clip."""
    generator = torch.Generator().manual_seed(3)
    logp, noise, other = (torch.randn(7, 7, generator=generator).double() for _ in range(3))
    scored = torch.arange(7) <= torch.tensor([2, 6, 0, 4, 1, 5, 3])[:, None]
    advantage = torch.randn(7, generator=generator).double()
    return Sampled(logp, logp + 0.5 * noise, logp + other, scored, advantage)
