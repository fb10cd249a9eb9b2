"""How many devices train one job, and what each of them holds."""

from typing import Literal

from pydantic import Field

from core.spec.tree import Spec

MOST_DEVICES = 64


class ParallelSpec(Spec):
    """Rows of a step are dealt to the devices by tokens; the result is that of one device up to rounding."""

    devices: int = Field(
        1, ge=1, le=MOST_DEVICES, description="Of one machine; each has a process."
    )
    strategy: Literal["ddp", "fsdp"] = Field(
        "fsdp",
        description="ddp: each device holds the whole model and its optimizer state; fsdp: each holds its "
        "share of every layer's rows, which are gathered while the layer runs.",
    )
