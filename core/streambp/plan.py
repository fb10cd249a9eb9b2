"""The memory plan: bytes by component, and the longest context that fits, from a configuration alone.

A step passes through three phases, and each holds what the others do not:

    head     every layer's kept states, the last norm's graph, one tile of logits, the head's gradient
    layers   the kept states, one layer's keys, values and their gradients, one chunk with its graph
    step     nothing of the sequence; the optimizer's working copies

Weights and the optimizer's state are there in all of them. The peak is the largest phase, and it
grows by the same amount with every token.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import torch

from core.streambp.errors import at_least_one
from core.streambp.plan_probe import Footprint, LayerCost, PlanError
from core.streambp.policy import Keep, StoreName

MARGIN = 0.05
"""Share of what comes and goes, for what allocators waste between it."""

HEAP = 16 * 2**20
"""And bytes: half of the largest freed block that glibc keeps in its heap; CUDA's keeps 20 MiB."""

GIB = 2**30
_LSE = torch.float32.itemsize
_FETCHED = 2  # layers whose states are on the device where they are stored elsewhere
_LONGEST = 2**32


@dataclass(frozen=True, slots=True)
class StepCost:
    """What the optimizer holds between steps, and what it needs besides while it steps: bytes."""

    state: int = 0
    scratch: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """Bytes on the device in one phase of a step.

    `hidden` are hidden states and gradients of the whole row that are not kept for any layer;
    `chunk` is one chunk's graph with the gradients of one layer's parameters.
    """

    name: Literal["head", "layers", "step"]
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


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of one training step over `rows` rows of `tokens` tokens."""

    model_type: str
    tokens: int
    rows: int
    chunk_tokens: int
    head_chunk_tokens: int
    keep: Keep
    store: StoreName
    phases: tuple[Phase, Phase, Phase]
    checkpointed_layers: int

    @property
    def peak(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return self.peak.total


@dataclass(frozen=True, slots=True)
class Wish:
    """How the model shall be trained. `fused`: a layer steps as soon as its gradient is known."""

    head_chunk_tokens: int = 256
    rows: int = 1
    keep: Keep = "hidden"
    store: StoreName = "device"
    fused: bool = False
    step: StepCost = StepCost()


def memory_plan(model: Footprint, tokens: int, wish: Wish) -> MemoryPlan:
    """Add up what a step over `tokens` tokens a row needs. Raises ChunkLengthError."""
    at_least_one("tokens", tokens)
    at_least_one("head_chunk_tokens", wish.head_chunk_tokens)
    at_least_one("rows", wish.rows)
    return MemoryPlan(
        model_type=model.model_type,
        tokens=tokens,
        rows=wish.rows,
        chunk_tokens=model.chunk_tokens,
        head_chunk_tokens=wish.head_chunk_tokens,
        keep=wish.keep,
        store=wish.store,
        phases=(
            _head_phase(model, tokens, wish),
            _layers_phase(model, tokens, wish),
            _step_phase(model, wish),
        ),
        checkpointed_layers=sum(layer.whole for layer in model.layers),
    )


def longest_context(model: Footprint, wish: Wish, budget_bytes: int) -> int:
    """The most tokens a row whose plan fits into the budget, by bisection.

    Raises PlanError where not even one chunk does.
    """

    def fits(tokens: int) -> bool:
        return memory_plan(model, tokens, wish).total <= budget_bytes

    least = model.chunk_tokens
    if not fits(least):
        need = memory_plan(model, least, wish).total
        raise PlanError(
            "budget_bytes", budget_bytes, f"one chunk of {least} tokens needs {need / GIB:.2f} GiB"
        )
    return _last(fits, least, _LONGEST)


def _last(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number from `low`, which fits, to `high` that fits."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _head_phase(model: Footprint, tokens: int, wish: Wish) -> Phase:
    item, wide = _sizes(model)
    states = tokens * wish.rows * model.width
    scored = min(wish.head_chunk_tokens, tokens * wish.rows)
    # The norm's input, its normalised form, the answer and the gradient; wider ones from a cast.
    hidden = states * (4 * item + (wide if wide > item else 0))
    weight = model.vocabulary * model.width
    tile = scored * model.vocabulary * (wide + (item if wide > item else 0))
    return Phase(
        "head",
        *_standing(model, wish, live=0),
        kept_states=_kept(model, tokens, wish),
        hidden=hidden,
        head=tile + weight * wide,
    )


def _layers_phase(model: Footprint, tokens: int, wish: Wish) -> Phase:
    item, _ = _sizes(model)
    costs = [(_keys(model, layer, tokens, wish), _chunk(model, layer, tokens, wish))
             for layer in set(model.layers)]  # fmt: skip
    keys, chunk = max(costs, key=sum)
    hidden = 2 * tokens * wish.rows * model.width * item  # what comes in and what goes out
    return Phase(
        "layers",
        *_standing(model, wish, live=max(layer.parameters for layer in model.layers)),
        kept_states=_kept(model, tokens, wish),
        hidden=hidden,
        keys_values=keys,
        chunk=chunk,
        head=model.embedding if model.tied else 0,  # waits for the gradient of the embedding
    )


def _step_phase(model: Footprint, wish: Wish) -> Phase:
    item, _ = _sizes(model)
    weights, gradients, optimizer = _standing(model, wish, live=model.largest_parameter * item)
    return Phase("step", weights, gradients, optimizer + wish.step.scratch)


def _standing(model: Footprint, wish: Wish, live: int) -> tuple[int, int, int]:
    """Weights, gradients, optimizer; fused, only `live` bytes of gradients exist at once."""
    return model.weights, live if wish.fused else model.weights, wish.step.state


def _kept(model: Footprint, tokens: int, wish: Wish) -> int:
    """Kept states that are on the device."""
    item, _ = _sizes(model)
    streamed, whole = [], 0
    for layer in model.layers:
        each = model.width * item
        if layer.whole:
            whole += each
            continue
        if wish.keep == "hidden+attention" and not layer.score_heads:
            each += layer.attention_width * item + layer.query_heads * _LSE
        if wish.keep == "hidden+kv":
            each += (layer.key_width + layer.value_width) * item
        streamed.append(each)
    if wish.store != "device":
        streamed = sorted(streamed)[-_FETCHED:]
    return tokens * wish.rows * (sum(streamed) + whole)


def _keys(model: Footprint, layer: LayerCost, tokens: int, wish: Wish) -> int:
    """Keys and values of a row, their sums of gradients, and one chunk's shares of these."""
    item, wide = _sizes(model)
    if layer.whole or tokens <= model.chunk_tokens:
        return 0
    seen = _seen(model, layer, tokens)
    widths = layer.key_width + layer.value_width
    return wish.rows * widths * (tokens * (item + wide) + seen * item)


def _chunk(model: Footprint, layer: LayerCost, tokens: int, wish: Wish) -> int:
    """One chunk's graph; the whole row's where the layer is checkpointed."""
    item, wide = _sizes(model)
    length = tokens if layer.whole else min(model.chunk_tokens, tokens)
    graph = max(layer.walk - layer.parameters, 0) * length // model.chunk_tokens
    sums = layer.parameters * wide // item if length < tokens else 0
    keys = length if layer.whole else min(length + _seen(model, layer, tokens), tokens)
    # Scores, their softmax in float32, its cast, and a gradient.
    scores = layer.score_heads * length * keys * (2 * item + 2 * _LSE)
    return wish.rows * (graph + scores) + layer.parameters + sums


def _seen(model: Footprint, layer: LayerCost, tokens: int) -> int:
    """Earlier keys that the last chunk sees."""
    earlier = max(tokens - model.chunk_tokens, 0)
    return earlier if layer.window is None else min(earlier, layer.window)


def _sizes(model: Footprint) -> tuple[int, int]:
    """Bytes of an element, and of one in long sums."""
    item = model.dtype.itemsize
    return item, max(item, torch.float32.itemsize)
