"""What is computed without gradients: rows that are only scored, and answers that are sampled.

    scoring    one layer's keys and values and one chunk of it, or one tile of logits; nothing is kept
    sampling   the cache of a batch of answers, and the most of three moments of it: a stock model's
               whole layer reads the prompts; a layer's part of the cache is copied as it grows; a
               token is drawn in float64

Sampling is not streamed: a prompt is read whole. Weights that compute in another form than they are
held in have it all at once meanwhile.
"""

import torch

from core.streambp.plan.footprint import Footprint, LayerCost
from core.streambp.plan.phases import standing, tile_bytes
from core.streambp.plan.terms import Drawn, Phase, Shape, Wish

_DRAW = 2 * torch.float64.itemsize  # logits over temperature, and their softmax
_SCORES = 2 * torch.float32.itemsize  # a softmax in float32, with what goes into it


def scoring_phase(model: Footprint, shape: Shape, wish: Wish) -> Phase:
    """The largest pass over rows of which nothing is learnt: held-out ones, or a reference's."""
    rows, tokens = shape
    item, several = model.dtype.itemsize, tokens > model.chunk_tokens
    layers = [
        (
            several * (not x.whole) * rows * tokens * (x.key_width + x.value_width) * item,
            _read(x, rows, tokens if x.whole else min(model.chunk_tokens, tokens), tokens, model)
            + (0 if wish.held_weights is None else x.parameters),
        )
        for x in set(model.layers)
    ]
    keys, chunk = max(layers, key=sum)
    head = tile_bytes(model, rows * tokens, wish)
    if wish.held_weights is not None:
        head += model.vocabulary * model.width * item
    if head > keys + chunk:
        keys = chunk = 0
    else:
        head = 0
    weights, _, optimizer = standing(model, wish, live=0)
    hidden = rows * tokens * (model.width * item + _around(model))  # and what a layer gives
    return Phase(
        "scoring", weights, 0, optimizer, hidden=hidden, keys_values=keys, chunk=chunk, head=head
    )


def sampling_phase(model: Footprint, drawn: Drawn, wish: Wish) -> Phase:
    """A batch of answers at the longest prompt and the full length, before any of them has ended."""
    item = model.dtype.itemsize
    length = drawn.prompt_tokens + drawn.completion_tokens
    reading = _reading(model, drawn)
    # Keys first, values after them. Heads share them, for a single token has its group in its place.
    growing = max(cached(x, drawn.rows, length, item) for x in model.layers) // 2
    drawing = drawn.rows * model.vocabulary * (_DRAW + item)
    grown = sum(cached(x, drawn.rows, length, item) for x in model.layers)
    read = sum(cached(x, drawn.prompts, drawn.prompt_tokens, item) for x in model.layers)
    # Each moment with the cache that there is then.
    keys, chunk, head = max([(read, reading, 0), (grown, growing, 0), (grown, 0, drawing)], key=sum)
    weights, _, optimizer = standing(model, wish, live=0)
    working = 0 if wish.held_weights is None else model.weights
    return Phase(
        "sampling", weights, 0, optimizer, keys_values=keys, chunk=chunk + working, head=head
    )


def cached(layer: LayerCost, rows: int, tokens: int, item: int) -> int:
    """What a layer's part of the cache takes; one with a window holds no more than that."""
    held = tokens if layer.window is None else min(tokens, layer.window)
    return rows * held * (layer.key_width + layer.value_width) * item


def _reading(model: Footprint, drawn: Drawn) -> int:
    """The prompts' way through the layer that needs most, whole; padded ones have a mask."""
    rows, tokens, item = drawn.prompts, drawn.prompt_tokens, model.dtype.itemsize
    masked = drawn.prompts > 1
    most = 0
    for x in set(model.layers):
        most = max(most, _read(x, rows, tokens, tokens, model))
        if masked:
            most = max(most, _under_a_mask(x, rows, tokens, item))
    return most + masked * rows * tokens * tokens + rows * tokens * _around(model)


def _under_a_mask(layer: LayerCost, rows: int, tokens: int, item: int) -> int:
    """While a layer attends: its mask in numbers, and keys and values once a query head."""
    shared = layer.key_width + layer.value_width
    repeated = 2 * layer.attention_width if layer.attention_width > layer.value_width else 0
    each = 2 * layer.attention_width + shared + repeated
    return rows * tokens * (each + tokens) * item


def _around(model: Footprint) -> int:
    """Bytes a token beside a layer: its embedding, what comes into the layer, rotations of heads."""
    turned = max(x.attention_width // max(x.query_heads, 1) for x in model.layers)
    return 2 * (model.width + turned) * model.dtype.itemsize


def _read(layer: LayerCost, rows: int, length: int, keys: int, model: Footprint) -> int:
    """`length` tokens of each row through a layer without a graph, looking at so many keys."""
    scores = layer.score_heads * length * keys * (model.dtype.itemsize + _SCORES)
    return rows * (layer.read * length // model.chunk_tokens + scores)
