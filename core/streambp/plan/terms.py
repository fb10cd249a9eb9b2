"""What a plan is asked for and what it is made of: a wish, an optimizer's cost, a phase's bytes."""

from dataclasses import dataclass, fields
from typing import Literal

from core.streambp.policy import Keep, StoreName

MARGIN = 0.05
"""Share of what comes and goes, for what allocators waste between it."""

HEAP = 4 * 2**20
"""And bytes, for the halves of blocks that a heap keeps however little is asked of it."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What the optimizer holds between steps, and what it needs besides while it steps: bytes.

    In a fused step it has one float32 gradient at a time: `outer` is what it needs besides for the
    embedding's or the head's, `inner` for one of a layer's weights.
    """

    state: int = 0
    scratch: int = 0
    outer: int = 0
    inner: int = 0


Shape = tuple[int, int]
"""Rows that go through the model at once, and the tokens of each."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Answers that are sampled side by side: `rows` of them, to `prompts` that are read at once."""

    rows: int
    prompts: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Wish:
    """How the model shall be trained.

    `fused`: a weight steps as soon as its gradient is known, in `backward_linear`. `linear`: the
    objective is linear in the log-probabilities, and `backward_linear` is called. `held_weights`:
    bytes of weights that are held in another form than they compute in (see `atwork`).
    `second_weights`: those of another, frozen model that is there too. `scored`: passes without
    gradients, over held-out rows or for a reference; `drawn`: batches of answers.
    """

    head_chunk_tokens: int = 256
    rows: int = 1
    keep: Keep = "hidden"
    store: StoreName = "device"
    fused: bool = False
    linear: bool = True
    step: StepCost = StepCost()
    held_weights: int | None = None
    second_weights: int = 0
    scored: tuple[Shape, ...] = ()
    drawn: tuple[Drawn, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """Bytes on the device in one phase of a step.

    `hidden` are hidden states and gradients of the whole row that are not kept for any layer;
    `chunk` is one chunk's graph with the gradients of one layer's parameters.
    """

    name: Literal["head", "layers", "step", "scoring", "sampling"]
    weights: int
    gradients: int
    optimizer: int
    kept_states: int = 0
    hidden: int = 0
    keys_values: int = 0
    chunk: int = 0
    head: int = 0

    @property
    def margin(self) -> int:
        """For what allocators waste."""
        moving = (self.kept_states, self.hidden, self.keys_values, self.chunk, self.head)
        return int(MARGIN * sum(moving)) + HEAP

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, f.name) for f in fields(self) if f.name != "name") + self.margin
