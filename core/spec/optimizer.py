"""Which optimizer, and its settings. Each kind knows the base learning rate of its vetted recipe.

APOLLO and APOLLO-Mini: Zhu et al., arXiv 2412.05270. The moments live in a random space of ``rank``
dimensions and only scale the raw gradient, so the state is O(rank) a row instead of O(width).
SCALE: Glentis et al., arXiv 2506.16659. Columns of the gradient are brought to one length; only the
output head has a moment.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.spec.tree import Spec

Beta1 = Annotated[float, Field(ge=0.0, lt=1.0, description="Decay of the first moment.")]
Beta2 = Annotated[float, Field(ge=0.0, lt=1.0, description="Decay of the second moment.")]
Epsilon = Annotated[float, Field(gt=0.0, le=1.0, description="Added to each denominator.")]
WeightDecay = Annotated[
    float, Field(ge=0.0, le=1.0, description="Decoupled: multiplied by the learning rate.")
]
Scale = Annotated[float, Field(gt=0.0, le=1e6)]
Gap = Annotated[int, Field(ge=1, le=1_000_000)]


class LowRankSpec(Spec):
    """What APOLLO and APOLLO-Mini share."""

    base_learning_rate: ClassVar[float] = 5e-5
    fusible: ClassVar[bool] = True  # steps one weight at a time, and needs no other for it

    projection: Literal["gaussian", "rademacher", "svd"] = Field(
        "gaussian",
        description="The random space: of normals, of signs (cheaper to draw), or the gradient's own"
        " singular vectors (slow, and kept in the state).",
    )
    update_proj_gap: Gap = Field(200, description="Steps between two projections.")
    beta1: Beta1 = 0.9
    beta2: Beta2 = 0.999
    eps: Epsilon = 1e-6
    weight_decay: WeightDecay = 0.0
    embeddings: Literal["adamw", "apollo"] = Field(
        "adamw", description="How embeddings and the output head are updated."
    )


class ApolloSpec(LowRankSpec):
    """APOLLO: one scaling factor a channel, estimated in ``rank`` dimensions."""

    kind: Literal["apollo"] = "apollo"
    rank: int = Field(256, ge=1, le=65_536, description="Dimensions of the random space.")
    scale: Scale = Field(1.0, description="The update is multiplied by its square root.")


class ApolloMiniSpec(LowRankSpec):
    """APOLLO-Mini: rank 1 and one scaling factor a tensor; the state is next to nothing."""

    kind: Literal["apollo_mini"] = "apollo_mini"
    scale: Scale = Field(128.0, description="The update is multiplied by its square root.")


class ScaleSpec(Spec):
    """SCALE: normalised gradients without any state, but for the output head's momentum."""

    base_learning_rate: ClassVar[float] = 1e-5
    fusible: ClassVar[bool] = True

    kind: Literal["scale"] = "scale"
    momentum: float = Field(
        0.9, ge=0.0, lt=1.0, description="Decay of the head's mean gradient; tied heads too."
    )
    beta1: Beta1 = Field(0.9, description="As in adamw, which norms and biases take.")
    beta2: Beta2 = Field(0.999, description="As in adamw, which norms and biases take.")
    eps: Epsilon = Field(1e-8, description="As in adamw, which norms and biases take.")
    weight_decay: WeightDecay = 0.0


class AdamWSpec(Spec):
    """AdamW as torch has it: two moments for every weight."""

    base_learning_rate: ClassVar[float] = 1e-5
    fusible: ClassVar[bool] = False

    kind: Literal["adamw"] = "adamw"
    beta1: Beta1 = 0.9
    beta2: Beta2 = 0.999
    eps: Epsilon = 1e-8
    weight_decay: WeightDecay = 0.01


class SgdSpec(Spec):
    """Stochastic gradient descent as torch has it."""

    base_learning_rate: ClassVar[float] = 1e-2
    fusible: ClassVar[bool] = False

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0.0, lt=1.0, description="Decay of the summed gradients.")
    weight_decay: float = Field(
        0.0, ge=0.0, le=1.0, description="Times the weight, added to its gradient."
    )


OptimizerSpec = Annotated[
    ApolloSpec | ApolloMiniSpec | ScaleSpec | AdamWSpec | SgdSpec, Field(discriminator="kind")
]
