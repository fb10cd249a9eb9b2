"""What a step needs in each of its phases: every formula of the plan.

    head     every layer's kept states, one tile of logits, the gradient that the head sends back
    layers   the kept states, one layer's keys, values and their gradients, one chunk with its graph
    step     nothing of the sequence; the optimizer's working copies

Weights and the optimizer's state are there in all of them. The peak is the largest phase, and it
grows by the same amount with every token.

In `backward_linear` a gradient of full width goes straight to `.grad`. Otherwise the head's and a
layer's grow in buffers of their own, in float32 where the weights are narrower. In a fused step
`.grad` itself has that width, and what exists at once is the gradient of the head or of one layer;
those of layers that are checkpointed wait for the end.
"""

import torch

from core.streambp.flash import KEYS_AT_ONCE
from core.streambp.plan.footprint import Footprint, LayerCost
from core.streambp.plan.terms import Phase, Wish

_SINGLE = torch.float32.itemsize
_NORM = 5  # its input, what it keeps, its answer and a gradient
_FETCHED = {"cpu": 2, "disk": 1}  # layers whose states are on the device meanwhile


def head_phase(model: Footprint, tokens: int, wish: Wish) -> Phase:
    """The head with the last norm, forward and backward, with every layer's states kept."""
    item, wide = _sizes(model)
    states = tokens * wish.rows * model.width
    tile = tile_bytes(model, tokens * wish.rows, wish)
    weight = model.vocabulary * model.width
    if wish.fused and model.head_trained and not model.tied:
        # It is stepped after the last tile, when what came in is gone.
        tile = max(tile, wish.step.outer - states * item)
    buffered = model.head_trained and (wish.fused or not _straight(model, wish))
    return Phase(
        "head",
        *standing(model, wish, live=0),
        kept_states=_kept(model, tokens, wish),
        hidden=2 * states * item,  # what comes in and what goes back
        head=tile + (weight * wide if buffered else 0) + _working(wish, weight * item),
    )


def layers_phase(model: Footprint, tokens: int, wish: Wish) -> Phase:
    """The backward pass of the layer that needs most, before any other has let go."""
    item, wide = _sizes(model)
    costs = [(_keys(model, layer, tokens, wish), _chunk(model, layer, tokens, wish))
             for layer in set(model.layers)]  # fmt: skip
    keys, chunk = max(costs, key=sum)
    waiting = 0  # of a tied head: its gradient waits for the embedding's
    tied = model.tied and model.head_trained
    if tied and wish.fused:
        waiting = model.vocabulary * model.width * wide
    elif tied and not _straight(model, wish):
        waiting = model.embedding
    hidden = 2 * tokens * wish.rows * model.width * item  # what comes in and what goes out
    return Phase(
        "layers",
        *standing(model, wish, live=max(x.gradients for x in model.layers)),
        kept_states=_kept(model, tokens, wish),
        hidden=hidden,
        keys_values=keys,
        chunk=chunk,
        head=waiting,
    )


def step_phase(model: Footprint, wish: Wish) -> Phase:
    """The optimizer's step, after the sequence is gone."""
    _, wide = _sizes(model)
    weights, gradients, optimizer = standing(model, wish, live=model.largest_parameter * wide)
    scratch = wish.step.outer if wish.fused else wish.step.scratch
    return Phase("step", weights, gradients, optimizer + scratch)


def tile_bytes(model: Footprint, tokens: int, wish: Wish) -> int:
    """One tile of logits, in the weights' dtype too, and the last norm with its graph."""
    _, wide = _sizes(model)
    scored = min(wish.head_chunk_tokens, tokens)
    return scored * (model.vocabulary * (wide + _narrow(model)) + _NORM * model.width * wide)


def stored_bytes(model: Footprint, tokens: int, wish: Wish) -> int:
    """What streamed layers keep of a step's rows, wherever it is stored."""
    return tokens * wish.rows * sum(_streamed(model, wish))


def standing(model: Footprint, wish: Wish, live: int) -> tuple[int, int, int]:
    """Weights, gradients, optimizer; fused, only `live` bytes of streamed gradients exist at once."""
    whole = sum(layer.gradients for layer in model.layers if layer.whole)
    weights = model.weights if wish.held_weights is None else wish.held_weights
    weights += wish.second_weights
    return weights, live + whole if wish.fused else model.gradients, wish.step.state


def _working(wish: Wish, computing: int) -> int:
    """Bytes of weights in the form in which they compute, beside the one in which they are held."""
    return 0 if wish.held_weights is None else computing


def _kept(model: Footprint, tokens: int, wish: Wish) -> int:
    """Kept states that are on the device."""
    item, _ = _sizes(model)
    whole = sum(layer.whole for layer in model.layers) * model.width * item
    streamed = _streamed(model, wish)
    if wish.store != "device":
        streamed = sorted(streamed)[-_FETCHED[wish.store] :]
    return tokens * wish.rows * (sum(streamed) + whole)


def _streamed(model: Footprint, wish: Wish) -> list[int]:
    """What each streamed layer keeps of a token."""
    item, _ = _sizes(model)
    streamed = []
    for layer in model.layers:
        if layer.whole:
            continue
        each = 0 if layer.looked_up else model.width * item
        if wish.keep == "hidden+attention" and not layer.score_heads:
            each += layer.attention_width * item + layer.query_heads * _SINGLE
        if wish.keep == "hidden+kv":
            each += (layer.key_width + layer.value_width) * item
        streamed.append(each)
    return streamed


def _keys(model: Footprint, layer: LayerCost, tokens: int, wish: Wish) -> int:
    """Keys and values of a row, their sums of gradients, and one chunk's shares of these."""
    item, wide = _sizes(model)
    if layer.whole or tokens <= model.chunk_tokens:
        return 0
    seen = _seen(model, layer, tokens)
    seen = seen if layer.score_heads else min(seen, KEYS_AT_ONCE)
    widths = layer.key_width + layer.value_width
    return wish.rows * widths * (tokens * (item + wide) + seen * item)


def _chunk(model: Footprint, layer: LayerCost, tokens: int, wish: Wish) -> int:
    """One chunk's graph; the whole row's where the layer is checkpointed."""
    item, _ = _sizes(model)
    length = tokens if layer.whole else min(model.chunk_tokens, tokens)
    graph = layer.walk * length // model.chunk_tokens
    sums = 0 if _straight(model, wish) else layer.gradients
    working = _working(wish, layer.parameters)
    keys = length if layer.whole else min(length + _seen(model, layer, tokens), tokens)
    # Scores, their softmax in float32, its cast, and a gradient.
    scores = layer.score_heads * length * keys * (2 * item + 2 * _SINGLE)
    return max(wish.rows * (graph + scores) + sums + working, wish.step.inner if wish.fused else 0)


def _seen(model: Footprint, layer: LayerCost, tokens: int) -> int:
    """Earlier keys that the last chunk sees."""
    earlier = max(tokens - model.chunk_tokens, 0)
    return earlier if layer.window is None else min(earlier, layer.window)


def _straight(model: Footprint, wish: Wish) -> bool:
    """Say whether gradients need no buffers beside `.grad`."""
    return wish.linear and (wish.fused or not model.narrow)


def _narrow(model: Footprint) -> int:
    """Bytes of an element that is narrower than those of long sums, else 0."""
    item, wide = _sizes(model)
    return item if item < wide else 0


def _sizes(model: Footprint) -> tuple[int, int]:
    """Bytes of an element, and of one in long sums."""
    item = model.dtype.itemsize
    return item, max(item, torch.float32.itemsize)
