"""JobPlan: what a job will need, told before it runs. Who makes it needs torch, who reads it does not.

All memory is in bytes and of the device, all disk of the run directory.
"""

from typing import Literal

from pydantic import Field

from core.spec.tree import Spec


class DataFacts(Spec):
    """What is known of the rows of the training file, in the model's tokens."""

    rows: int = Field(ge=1)
    tokens: int = Field(ge=1, description="Of all rows together, once.")
    longest: int = Field(ge=1, description="Of the longest row.")


class PhaseMemory(Spec):
    """One phase of a step, or of what is done beside steps; ``total`` is the sum of all others."""

    name: Literal["head", "layers", "step", "scoring", "sampling"]
    weights: int
    gradients: int
    optimizer: int
    kept_states: int
    hidden: int
    keys_values: int
    chunk: int
    head: int
    margin: int
    total: int


class Advice(Spec):
    """The first change by which a plan fits: ``field`` set to ``value``."""

    field: str
    value: int | str


class DiskPlan(Spec):
    """``checkpoints``: all that are kept, and one that is being written."""

    inputs: int
    checkpoint: int
    checkpoints: int
    kept_states: int
    total: int


class JobPlan(Spec):
    """Memory by component in each phase, the longest context, disk, and what there is to do.

    ``fits``, ``longest_context`` and ``advice`` are null where no memory was given to fit into, ``advice``
    also where the plan fits or no change helps; ``longest_context`` is 0 where no context fits. Without data
    rows are taken to be as long as ``context_length``, and ``steps`` and ``tokens`` are null.
    """

    model_type: str
    context_length: int
    rows_at_once: int
    tokens_a_row: int
    chunk_tokens: int
    step: Literal["fused", "two_phase"]
    checkpointed_layers: int
    phases: tuple[PhaseMemory, ...] = Field(strict=False)  # of JSON's lists
    peak: str
    memory_bytes: int
    budget_bytes: int | None
    fits: bool | None
    longest_context: int | None
    advice: Advice | None
    disk: DiskPlan
    steps: int | None
    tokens: int | None
