"""What is learnt from the rows. One member a kind; the field ``kind`` tells them apart."""

from typing import Literal

from pydantic import Field

from core.spec.tree import Spec


class SftSpec(Spec):
    """Supervised fine-tuning: cross-entropy, one token-weighted mean over the optimizer step."""

    kind: Literal["sft"] = "sft"
    train_on: Literal["assistant", "all"] = Field(
        "assistant", description="Which tokens carry loss: the assistant's turns, or every token."
    )


ObjectiveSpec = SftSpec
