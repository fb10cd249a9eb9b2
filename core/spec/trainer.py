"""The ``trainer`` object: everything for which OpenAI's fine-tuning API has no word.

A user may leave out any of it; what she leaves out is the vetted recipe. ``None`` marks a value that
depends on the model or the data and is filled in by ``JobSpec.resolved``.
"""

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag

from core.spec.adapter import AdapterSpec, FullSpec
from core.spec.objective import ObjectiveSpec, SftSpec
from core.spec.optimizer import ApolloMiniSpec, OptimizerSpec
from core.spec.parallel import ParallelSpec
from core.spec.schedule import CosineSpec, ScheduleSpec
from core.spec.tree import Spec

LONGEST_CONTEXT = 2**24
Precision = Literal["float32", "bfloat16", "int8"]
Priority = Literal["low", "normal", "high"]
PRIORITIES: Final[dict[Priority, int]] = {"low": -1, "normal": 0, "high": 1}
LARGEST_LEARNING_RATE = 10.0


def _number_or_auto(value: object) -> str | None:
    if isinstance(value, str):
        return value if value == "auto" else None
    return "number"


ChunkTokens = Annotated[
    Annotated[int, Field(ge=1, le=LONGEST_CONTEXT), Tag("number")]
    | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(
        _number_or_auto,
        custom_error_type="chunk_length",
        custom_error_message="Input should be a number of tokens or 'auto'",
    ),
]


class StreamSpec(Spec):
    """How StreamBP cuts the sequence, and what a layer keeps for its backward pass.

    Smaller chunks and keeping less need less memory, larger ones and keeping more less time.
    Gradients are exact in every case, but their rounding depends on the chunk length: a resumed run
    goes on with the length that ``auto`` chose at its beginning.
    """

    chunk_tokens: ChunkTokens = Field(
        "auto",
        description="Tokens a layer sees at once; auto: chosen from the memory plan for the rows, "
        "the model and the memory that is free when the run begins.",
    )
    head_chunk_tokens: int = Field(
        256, ge=1, le=LONGEST_CONTEXT, description="Tokens whose logits exist at once."
    )
    keep: Literal["hidden", "hidden+attention", "hidden+kv"] = Field(
        "hidden",
        description="What a layer keeps: its input; also what attention answered, so that the part "
        "that is quadratic in the tokens is computed once; or also its keys and values.",
    )
    store: Literal["device", "cpu", "disk"] = Field(
        "device",
        description="Where it keeps it: on the device, in pinned memory of the host, or in files in "
        "the run's own folder.",
    )


class CheckpointSpec(Spec):
    """When a resumable checkpoint is written, and how many are kept."""

    every: int | None = Field(
        None, ge=1, le=10_000_000, description="Steps between two; null: at the end of each epoch."
    )
    keep_last: int = Field(3, ge=1, le=1000, description="Older ones are deleted.")
    keep_best: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="A metric of the validation file, as full_valid_loss; the checkpoint at which it was "
        "best is kept as well.",
    )


class EvaluationSpec(Spec):
    """When the validation file is measured."""

    every: int | None = Field(
        None, ge=1, le=10_000_000, description="Steps between two; null: at the end of each epoch."
    )


class EarlyStoppingSpec(Spec):
    """End the job when a metric of the validation file no longer gets better."""

    metric: str = Field(
        "full_valid_loss",
        min_length=1,
        max_length=64,
        description="Of the validation file. A loss or kl is better when lower, all else when higher.",
    )
    patience: int = Field(
        3, ge=1, le=10_000, description="Measurements in a row without a better one."
    )
    least_gain: float = Field(
        0.0, ge=0.0, le=1e6, description="By how much a value must be better to count."
    )


class TrainerSpec(Spec):
    """How to train."""

    objective: ObjectiveSpec = SftSpec()
    context_length: int | None = Field(
        None,
        ge=8,
        le=LONGEST_CONTEXT,
        description="Longest row in tokens; null: the model's, at most 8192.",
    )
    on_overlength: Literal["error", "drop", "truncate_left", "truncate_right", "split"] | None = (
        Field(
            None,
            description="What happens to a row longer than context_length; null: split for pretrain, error "
            "for everything else. split: rows that share a token, so that each is predicted once.",
        )
    )
    packing: bool | None = Field(
        None,
        description="Several rows one after the other in one, none of which sees another; null: for "
        "pretrain only.",
    )
    chat_template: str | None = Field(
        None,
        min_length=1,
        max_length=65_536,
        description="A Jinja template in place of the model's own, run in transformers' sandbox; it lies "
        "with the tokenizer in every checkpoint.",
    )
    adapter: AdapterSpec = FullSpec()
    optimizer: OptimizerSpec = ApolloMiniSpec()
    precision: Precision = Field(
        "float32",
        description="How weights are held. bfloat16 and int8 ones are updated by stochastic rounding; "
        "int8 ones compute in bfloat16 on a GPU, in float32 elsewhere.",
    )
    step: Literal["auto", "fused", "two_phase"] = Field(
        "auto",
        description="fused: inside the backward pass, a layer's weights as soon as their gradient is "
        "known, so that one layer of gradients exists at once; two_phase: after it; auto: fused "
        "where the optimizer can and all rows of a step go through the model in one pass. The "
        "weights are the same.",
    )
    learning_rate: float | None = Field(
        None,
        gt=0.0,
        le=LARGEST_LEARNING_RATE,
        description="Absolute peak; null: the optimizer's base rate.",
    )
    schedule: ScheduleSpec = CosineSpec()
    stream: StreamSpec = StreamSpec()
    tokens_per_pass: int | None = Field(
        None,
        ge=1,
        le=LONGEST_CONTEXT,
        description="Padded tokens that go through the model at once; null: context_length. "
        "A step's rows are split over passes; the loss is normalised over the whole step.",
    )
    checkpoint: CheckpointSpec = CheckpointSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    early_stopping: EarlyStoppingSpec | None = Field(
        None, description="null: all steps are made, whatever the validation file says."
    )
    parallel: ParallelSpec = ParallelSpec()
    canary: bool = Field(
        True,
        description="Make one step on the longest rows, with evaluation and checkpoint, before the first and "
        "drop it: what does not fit is known at once.",
    )
    max_skipped_steps: int = Field(
        5,
        ge=0,
        le=10_000,
        description="Steps in a row that may be skipped because their loss or gradient is not finite; "
        "one more fails the job. 0: the first does.",
    )
    priority: Priority = Field(
        "normal",
        description="Of your waiting jobs the more urgent goes first; projects take turns all the same.",
    )
    max_steps: int | None = Field(
        None, ge=1, le=100_000_000, description="Ends the job early; null: all epochs are trained."
    )
