"""How the learning rate moves over the steps of a job."""

from typing import Annotated, Literal

from pydantic import Field

from core.spec.tree import Spec

WarmupRatio = Annotated[
    float, Field(ge=0.0, le=1.0, description="Share of the steps that warm up.")
]
FloorRatio = Annotated[
    float, Field(ge=0.0, le=1.0, description="Share of the learning rate that is left at the end.")
]


class CosineSpec(Spec):
    """Linear warm-up, then half a cosine down to ``floor_ratio`` of the learning rate."""

    kind: Literal["cosine"] = "cosine"
    warmup_ratio: WarmupRatio = 0.03
    floor_ratio: FloorRatio = 0.1


class LinearSpec(Spec):
    """Linear warm-up, then a straight line down to ``floor_ratio`` of the learning rate."""

    kind: Literal["linear"] = "linear"
    warmup_ratio: WarmupRatio = 0.03
    floor_ratio: FloorRatio = 0.0


class ConstantSpec(Spec):
    """Linear warm-up, then no change."""

    kind: Literal["constant"] = "constant"
    warmup_ratio: WarmupRatio = 0.0


ScheduleSpec = Annotated[CosineSpec | LinearSpec | ConstantSpec, Field(discriminator="kind")]
