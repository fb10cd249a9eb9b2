"""A row as a model sees it."""

from typing import Any, Literal

from pydantic import BaseModel


class SegmentView(BaseModel):
    """Neighbouring tokens that are all trained or all not; with ``omitted``, so many that are left out."""

    text: str
    input_ids: list[int]
    trained: bool | None
    omitted: int


class SideView(BaseModel):
    """The row, or its `chosen` or `rejected` side, or the `prompt` whose answers are sampled later."""

    name: Literal["row", "chosen", "rejected", "prompt"]
    tokens: int
    trained_tokens: int
    segments: list[SegmentView]


class PreviewView(BaseModel):
    """One row of a file, whole: nothing is cut to a context."""

    object: Literal["trainer.preview"] = "trainer.preview"
    model: str
    training_file: str
    line: int
    shape: str
    objective: Literal["pretrain", "sft", "dpo", "grpo"]
    sides: list[SideView]
    item: dict[str, Any] | None
