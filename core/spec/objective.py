"""What is learnt from the rows. One member a kind; the field ``kind`` tells them apart.

``rate_share`` is the part of an optimizer's base learning rate with which an objective's recipe begins:
preferences and rewards move a model that is good already.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from core.spec.grader import GraderSpec
from core.spec.tree import Spec

Reference = Literal["base", "none"]


class PretrainSpec(Spec):
    """Plain text: every token of every document is predicted once, from its own document alone."""

    rate_share: ClassVar[float] = 1.0

    kind: Literal["pretrain"] = "pretrain"


class SftSpec(Spec):
    """Supervised fine-tuning: cross-entropy, one token-weighted mean over the optimizer step."""

    rate_share: ClassVar[float] = 1.0

    kind: Literal["sft"] = "sft"
    train_on: Literal["assistant", "all"] = Field(
        "assistant", description="Which tokens carry loss: the assistant's turns, or every token."
    )


class DpoSpec(Spec):
    """Direct preference optimisation: of two answers, make the chosen one likelier than the other.

    Rafailov et al., arXiv 2305.18290; ipo: Azar et al., arXiv 2310.12036; hinge: Zhao et al., arXiv
    2305.10425; robust: Chowdhury et al., arXiv 2403.00409; without a reference: Meng et al., arXiv
    2405.14734; with the chosen answer's likelihood: Pang et al., arXiv 2404.19733.
    """

    rate_share: ClassVar[float] = 0.1

    kind: Literal["dpo"] = "dpo"
    loss: Literal["sigmoid", "ipo", "hinge", "robust"] = Field(
        "sigmoid", description="How the margin between the two answers becomes a loss."
    )
    beta: float = Field(
        0.1, gt=0.0, le=100.0, description="How much a difference in log-probability is worth."
    )
    label_smoothing: float = Field(
        0.0,
        ge=0.0,
        lt=0.5,
        description="Share of pairs that are labelled the wrong way round; for sigmoid and robust.",
    )
    length_normalised: bool = Field(
        False, description="Compare mean log-probabilities of a token instead of their sums."
    )
    reference: Reference = Field(
        "base", description="What log-probabilities are compared with: the base model, or nothing."
    )
    target_margin: float = Field(
        0.0,
        ge=0.0,
        le=100.0,
        description="Reward by which the chosen answer is to lead (SimPO's gamma); not for ipo.",
    )
    nll_weight: float = Field(
        0.0, ge=0.0, le=100.0, description="Weight of the chosen answer's mean token loss, added."
    )

    @field_validator("label_smoothing")
    @classmethod
    def _is_for_losses_of_likelihoods(cls, value: float, info: ValidationInfo) -> float:
        loss = info.data.get("loss")
        if value and loss in {"ipo", "hinge"}:
            raise ValueError(f"label_smoothing means nothing to loss {loss}: leave it at 0")
        if not value and loss == "robust":
            raise ValueError(
                "label_smoothing must be above 0 for loss robust, which is sigmoid without it"
            )
        return value

    @field_validator("target_margin")
    @classmethod
    def _is_for_losses_without_a_target(cls, value: float, info: ValidationInfo) -> float:
        if value and info.data.get("loss") == "ipo":
            raise ValueError(
                "target_margin means nothing to loss ipo, whose target is 1 / (2 beta): leave it at 0"
            )
        return value


class GrpoSpec(Spec):
    """Group relative policy optimisation: sample answers, grade them, prefer the better of a group.

    Shao et al., arXiv 2402.03300; dapo: Yu et al., arXiv 2503.14476; dr_grpo: Liu et al., arXiv
    2503.20783; gspo: Zheng et al., arXiv 2507.18071.
    """

    rate_share: ClassVar[float] = 0.1

    kind: Literal["grpo"] = "grpo"
    grader: GraderSpec = Field(description="What an answer is worth.")
    group_size: int = Field(8, ge=2, le=256, description="Answers sampled to each prompt.")
    loss: Literal["grpo", "dapo", "dr_grpo", "gspo"] = Field(
        "dapo",
        description="grpo: mean over answers of each one's mean; dapo: mean over all tokens of the "
        "step; dr_grpo: sums over answers by max_completion_tokens; gspo: one ratio an answer.",
    )
    advantages: Literal["group", "batch", "none"] = Field(
        "group",
        description="By whose standard deviation rewards, less their group's mean, are divided.",
    )
    clip_low: float = Field(
        0.2, ge=0.0, lt=1.0, description="A ratio below 1 less this is clipped."
    )
    clip_high: float = Field(
        0.28, ge=0.0, le=100.0, description="A ratio above 1 and this is clipped."
    )
    kl_weight: float = Field(
        0.0, ge=0.0, le=100.0, description="Weight of the divergence from the base model; 0: none."
    )
    updates_per_batch: int = Field(
        1, ge=1, le=64, description="Optimizer steps on the answers of one sampling."
    )
    temperature: float = Field(
        1.0, gt=0.0, le=100.0, description="Of sampling, and of every log-probability."
    )
    max_completion_tokens: int = Field(
        512,
        ge=1,
        le=2**20,
        description="An answer that is longer is cut, and counted as truncated.",
    )
    eval_samples: int = Field(
        1, ge=1, le=64, description="Answers sampled to each prompt of the validation file."
    )
    json_output: bool = Field(
        False, description="Parse each answer as JSON, for graders, as sample.output_json."
    )


def _kind(value: object) -> object:
    """The word by which a member is chosen; whoever leaves it out means sft."""
    return value.get("kind", "sft") if isinstance(value, dict) else getattr(value, "kind", None)


ObjectiveSpec = Annotated[
    Annotated[PretrainSpec, Tag("pretrain")]
    | Annotated[SftSpec, Tag("sft")]
    | Annotated[DpoSpec, Tag("dpo")]
    | Annotated[GrpoSpec, Tag("grpo")],
    Discriminator(
        _kind,
        custom_error_type="objective_unknown",
        custom_error_message="Input should be an object whose kind is pretrain, sft, dpo or grpo",
    ),
]


def updates_per_batch(objective: ObjectiveSpec) -> int:
    """Optimizer steps on the rows of one batch."""
    return objective.updates_per_batch if isinstance(objective, GrpoSpec) else 1
