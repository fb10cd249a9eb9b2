"""Which weights are trained: all of them, or a small adapter beside them."""

from typing import Annotated, Literal

from pydantic import Field

from core.spec.tree import Spec

Targets = Annotated[  # of JSON's lists; tuples, for a spec is frozen
    tuple[Annotated[str, Field(min_length=1, max_length=256)], ...],
    Field(strict=False, min_length=1, max_length=256),
]


class FullSpec(Spec):
    """Every weight is trained."""

    kind: Literal["none"] = "none"


class LoraSpec(Spec):
    """Low-rank matrices beside frozen weights: Hu et al., arXiv 2106.09685."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(16, ge=1, le=4096, description="Of the two matrices.")
    alpha: float = Field(32.0, gt=0.0, le=1e6, description="Their product counts alpha / rank.")
    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="Of what goes into the matrices.")
    targets: Literal["all-linear"] | Targets = Field(
        "all-linear",
        description="Names of the modules that get one, as q_proj; all-linear: every linear layer "
        "but the head.",
    )
    merge: bool = Field(
        False, description="Also write the whole model, with the adapter taken into its weights."
    )


AdapterSpec = Annotated[FullSpec | LoraSpec, Field(discriminator="kind")]
