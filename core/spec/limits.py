"""How long a context can be trained on one kind of worker: told of each base model, by method and memory."""

from typing import Literal

from core.spec.tree import Spec


class ModelLimit(Spec):
    """Of a job with the usual settings. ``longest_context``: in tokens; 0: not even the shortest fits."""

    method: Literal["supervised", "dpo", "reinforcement"]
    precision: Literal["float32", "bfloat16", "int8"]
    adapter: Literal["none", "lora"]
    longest_context: int
